/**
 * Session affinity as elements. One set of a family holds the clients of all service ports: an element is the number of a service
 * port, and that of an endpoint together with that of a client. Sets and chains of single service ports would make every
 * transaction slower, also those of other services: nft reads the declarations of all for each.
 *
 * A client is a hash of its address with 16 bits, so a flood of addresses takes the room of 65,536 clients and shuts out nobody.
 * Clients with the same hash have the same endpoint. The number of a service port is a hash of its cluster IP; clients of two
 * with the same number would have endpoints of the same number at both.
 *
 * An endpoint keeps its number as long as it is one of the service port's. A new one takes the lowest number under which no client
 * may be remembered: a client of an endpoint that is gone has chosen another one since.
 */
import {
  type FamilySettings,
  hasExternalFrontends,
  isPolicyLocal,
  type Protocol,
  type ServicePort,
} from "../../core/model/mod.ts";
import { counterOwner, drawOf, drawText, type ListName, tableOf } from "./draw.ts";
import { CLIENT_HASHES, clientHash, clientHashText, destinationHash, destinationHashText } from "./hashes.ts";
import type { Listing } from "./listing.ts";
import { type Dialect, durationText, endpointElement, fromThisNode, setMark } from "./table.ts";
import { chainText, type Item } from "./transaction.ts";

/** A service port, and what the kernel adds to it. */
export interface NumberedPort extends ServicePort {
  /** The numbers of the endpoints of both lists; only with session affinity. */
  readonly numbering?: Numbering;
}

/** The numbers of a service port's endpoints. */
export interface Numbering {
  readonly numbers: ReadonlyMap<string, number>;
  /** The numbers of endpoints that are gone, whose clients may still be remembered. */
  readonly spent: ReadonlySet<number>;
}

/** More spent numbers are given again, since a number has 16 bits. */
const MOST_SPENT = 60_000;

/** The numbering of a service port, in which each endpoint keeps its number in `held`. */
export function numberingOf({ clusterEndpoints, localEndpoints }: ServicePort, held?: Numbering): Numbering {
  const endpoints = new Set([...clusterEndpoints, ...localEndpoints]);
  const taken = new Set<number>(), spent = new Set(held?.spent);
  for (const [endpoint, number] of held?.numbers ?? []) (endpoints.has(endpoint) ? taken : spent).add(number);
  if (spent.size > MOST_SPENT) spent.clear();
  let next = 0;
  const free = () => {
    while (taken.has(next) || spent.has(next)) next++;
    return next++;
  };
  return {
    numbers: new Map([...endpoints].map((endpoint) => [endpoint, held?.numbers.get(endpoint) ?? free()])),
    spent,
  };
}

/** The numbering of a service port in a listing; `otherwise` if its endpoints have no numbers there. */
export function numberingIn(listing: Listing, port: ServicePort, otherwise: Numbering | undefined): Numbering {
  const numbers = new Map([...numbersOfShared(listing, port), ...numbersOfOwn(listing, port)]);
  if (numbers.size === 0 && otherwise) return otherwise;
  const live = new Set(numbers.values());
  const clients = listing.get("clients"), ofPort = clients?.get(String(serviceNumber(port)));
  // As long as nobody reads the clients, all numbers that were given may have some.
  const spent = clients ? ofPort?.split(" ").map(Number) ?? [] : [...otherwise?.spent ?? []];
  return { numbers, spent: new Set(spent.filter((number) => !live.has(number))) };
}

/** The numbers of endpoints in the map of endpoints, if a chain that service ports share serves this one. */
function* numbersOfShared(listing: Listing, port: ServicePort): Generator<readonly [string, number]> {
  const { protocol, clusterIP } = port, elements = listing.get(`${protocol}-endpoints`);
  const verdict = listing.get("services")?.get(`${clusterIP} . ${protocol} . ${port.port}`) ?? "";
  const byElement = new Map(
    [...port.clusterEndpoints, ...port.localEndpoints].map((endpoint) => [endpointElement(endpoint), endpoint]),
  );
  for (const number of parseSharedAffinity(verdict.slice("goto ".length))?.numbers ?? []) {
    const endpoint = byElement.get(elements?.get(`${clusterIP} . ${port.port} . ${number}`) ?? "");
    if (endpoint !== undefined) yield [endpoint, number];
  }
}

/** The numbers of endpoints in the chains that only this service port has. */
function* numbersOfOwn(listing: Listing, port: ServicePort): Generator<readonly [string, number]> {
  const { cluster, local } = ownAffinityNames(port);
  for (const name of [cluster, local]) {
    const rules = listing.get("chain")!.get(name) ?? "";
    for (const [, offset = "0", endpoint] of rules.matchAll(OF_KNOWN_CLIENTS)) {
      yield [endpoint!, Number(offset) / CLIENT_HASHES];
    }
  }
}

/** Matches a rule for known clients: the offset of the number of its endpoint, and the endpoint. */
const OF_KNOWN_CLIENTS = / seed \S+(?: offset (\d+))? @clients .* dnat to (\S+)$/gm;

/** The element of a client in the set of clients, for a service port and one of its endpoints. */
export function clientElement(port: ServicePort, number: number, client: string): string {
  return `${serviceNumber(port)} . ${number * CLIENT_HASHES + clientHash(client)}`;
}

function serviceNumber({ clusterIP, protocol, port }: ServicePort): number {
  return destinationHash({ address: clusterIP, protocol, port });
}

/** The names of the chains for both lists and for external traffic. */
interface AffinityChainNames {
  readonly cluster: string;
  readonly local: string;
  readonly external: string;
  /** Whether it is one chain, which service ports share. */
  readonly isShared: boolean;
}

/** The names of the chains that serve a service port with session affinity: its own, or one that it shares. */
export function affinityChainNames(port: NumberedPort): AffinityChainNames {
  const shared = sharedAffinityName(port);
  if (shared === undefined) return ownAffinityNames(port);
  return { cluster: shared, local: shared, external: shared, isShared: true };
}

function ownAffinityNames(port: ServicePort): AffinityChainNames {
  const owner = counterOwner(port);
  return {
    cluster: `affinity-${owner}`,
    local: `affinity-local-${owner}`,
    external: `affinity-external-${owner}`,
    isShared: false,
  };
}

/** Numbers that follow each other. */
interface Run {
  readonly first: number;
  length: number;
}

/** The longest name of a shared chain: a name may have 127 characters in all. */
const LONGEST_NAME = 100;

/**
 * The name of the chain that serves a service port, if it can share one: its clients know it by its cluster IP alone, and it has no
 * tables. `affinity-tcp-10800-0-2.4` picks endpoints with the numbers 0, 1, 2 and 4, and remembers clients for three hours.
 */
function sharedAffinityName(port: NumberedPort): string | undefined {
  if (port.balance !== undefined || hasExternalFrontends(port)) return undefined;
  const runs: Run[] = [];
  for (const number of endpointNumbers(port, port.internal === "local" ? "local" : "cluster").sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last.first + last.length === number) last.length++;
    else runs.push({ first: number, length: 1 });
  }
  const texts = runs.map(({ first, length }) => length === 1 ? String(first) : `${first}-${first + length - 1}`);
  const name = `affinity-${port.protocol}-${port.affinitySeconds}-${texts.join(".")}`;
  return name.length > LONGEST_NAME ? undefined : name;
}

/** The numbers of the endpoints of a list. */
export function endpointNumbers(port: NumberedPort, list: ListName): number[] {
  const { numbers } = port.numbering ?? numberingOf(port);
  return (list === "cluster" ? port.clusterEndpoints : port.localEndpoints).map((endpoint) => numbers.get(endpoint)!);
}

const SHARED = /^affinity-(tcp|udp|sctp)-(\d+)-(\d+(?:[.-]\d+)*)$/;

function parseSharedAffinity(name: string) {
  const [, protocol, seconds, texts] = SHARED.exec(name) ?? [];
  if (texts === undefined) return undefined;
  const runs = texts.split(".").map((text): Run => {
    const [first = 0, last = first] = text.split("-").map(Number);
    return { first, length: last - first + 1 };
  });
  const numbers = runs.flatMap(({ first, length }) => Array.from({ length }, (_, i) => first + i));
  return { protocol: protocol as Protocol, seconds: Number(seconds), runs, numbers };
}

/** The rules of a shared chain by its name; undefined if no such chain has it. */
export function affinityRules(name: string, { ip }: Dialect): string[] | undefined {
  const chain = parseSharedAffinity(name);
  if (chain === undefined) return undefined;
  const { protocol, seconds, runs, numbers } = chain;
  const statement = (drawn: string) =>
    `dnat ${ip} to ${ip} daddr . ${protocol} dport . ${drawn} map @${protocol}-endpoints`;
  let left = numbers.length;
  const unremembered = runs.map(({ first, length }) => {
    const match = left === length ? "" : `${drawText("random", left, ip, protocol)} < ${length} `;
    left -= length;
    return match + statement(drawText("random", length, ip, protocol) + offsetText(first));
  });
  return rulesOf({
    ip,
    seconds,
    service: destinationHashText(ip, protocol),
    targets: numbers.map((number) => ({ number, statement: statement(constantText(number)) })),
    draws: numbers.map((number, i) => ({ number, match: equalMatch("random", numbers.length - i, ip, protocol) })),
    unremembered,
  });
}

/** The chains with these names, which only this service port has, in an order in which each refers only to earlier ones. */
export function ownAffinityChains(
  names: AffinityChainNames,
  port: NumberedPort,
  settings: FamilySettings,
  dialect: Dialect,
): Item[] {
  const chains: Item[] = [];
  const add = (key: string, rules: readonly string[]) =>
    chains.push({ list: "chain", key, text: chainText(undefined, rules) });
  if (port.clusterEndpoints.length > 0) add(names.cluster, ownRules(port, "cluster", dialect));
  if (port.localEndpoints.length > 0) add(names.local, ownRules(port, "local", dialect));
  if (!hasExternalFrontends(port)) return chains;
  if (port.external === "cluster" && port.clusterEndpoints.length > 0) {
    add(names.external, [setMark(settings), `goto ${names.cluster}`]);
  } else if (isPolicyLocal(port.external)) {
    const shortcut = port.clusterEndpoints.length > 0;
    add(names.external, [
      ...(shortcut ? fromThisNode(settings, dialect, `goto ${names.cluster}`) : []),
      ...(port.localEndpoints.length > 0 ? [`goto ${names.local}`] : []),
    ]);
  }
  return chains;
}

function ownRules(port: NumberedPort, list: ListName, { ip }: Dialect): string[] {
  const endpoints = list === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const numbers = endpointNumbers(port, list), picked = picks(port, list, ip);
  const statements = endpoints.map((endpoint) => `meta l4proto ${port.protocol} dnat to ${endpoint}`);
  return rulesOf({
    ip,
    seconds: port.affinitySeconds,
    service: constantText(serviceNumber(port)),
    targets: statements.map((statement, i) => ({ number: numbers[i]!, statement })),
    draws: picked.map(({ index, match }) => ({ number: numbers[index]!, match })),
    unremembered: picked.map(({ index, match }) => match + statements[index]!),
  });
}

/** A number of 32 bits in a key. nft has no other constant of a size that it knows. */
function constantText(number: number): string {
  return `numgen random mod 1${offsetText(number)}`;
}

function offsetText(number: number): string {
  return number === 0 ? "" : ` offset ${number}`;
}

/** The properties by which the rules of two chains differ. */
interface Choice {
  readonly ip: "ip" | "ip6";
  readonly seconds: number;
  /** The expression with the number of the service port. */
  readonly service: string;
  /** The endpoints, each with the statement that sends a packet there. */
  readonly targets: readonly { readonly number: number; readonly statement: string }[];
  /** The rules for new clients: what they match, with a trailing space; empty if it is everything. */
  readonly draws: readonly { readonly number: number; readonly match: string }[];
  /** The rules for new clients that the kernel cannot remember. */
  readonly unremembered: readonly string[];
}

/** A rule per endpoint for its clients, then one that picks it for new clients and remembers them, if there is room. */
function rulesOf({ ip, seconds, service, targets, draws, unremembered }: Choice): string[] {
  const key = (number: number) => `${service} . ${clientHashText(ip)}${offsetText(number * CLIENT_HASHES)}`;
  const remember = (number: number) => `update @clients { ${key(number)} timeout ${durationText(seconds)} } `;
  const statements = new Map(targets.map(({ number, statement }) => [number, statement]));
  return [
    ...targets.map(({ number, statement }) => `${key(number)} @clients ${remember(number)}${statement}`),
    ...draws.map(({ number, match }) => match + remember(number) + statements.get(number)!),
    ...unremembered,
  ];
}

/** A match with the probability of one in `left`. */
function equalMatch(draw: ReturnType<typeof drawOf>, left: number, ip: "ip" | "ip6", protocol: Protocol): string {
  return left === 1 ? "" : `${drawText(draw, left, ip, protocol)} 0 `;
}

/**
 * The rules for new clients, in order, by the index of their endpoint. With `random` and `turn`, each rule draws a new number, and the
 * last rule matches every client that no other did. With a hash, a client has the same number in every rule, so each rule matches its
 * own numbers.
 */
function picks(port: ServicePort, list: ListName, ip: "ip" | "ip6") {
  const { protocol } = port, endpoints = list === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const table = tableOf(port, list), draw = drawOf(port);
  if (table === undefined) {
    return endpoints.map((_, index) => ({ index, match: equalMatch(draw, endpoints.length - index, ip, protocol) }));
  }
  const slots = endpoints.map((): number[] => []);
  table.forEach((index, slot) => slots[index]!.push(slot));
  const used = slots.flatMap((own, index) => own.length > 0 ? [{ index, own }] : []);
  const isHash = draw === "flow" || draw === "client";
  let left = table.length;
  return used.map(({ index, own }, i) => {
    const of = left;
    left -= own.length;
    if (used.length === 1 || !isHash && i === used.length - 1) return { index, match: "" };
    if (!isHash) return { index, match: `${drawText(draw, of, ip, protocol)} < ${own.length} ` };
    const match = own.length === 1 ? own[0] : `{ ${own.join(", ")} }`;
    return { index, match: `${drawText(draw, table.length, ip, protocol)} ${match} ` };
  });
}
