/** The numbers of the endpoints of service ports with session affinity, and the names of the chains that serve them. */
import { hasExternalFrontends, type Protocol, type ServicePort } from "../../core/model/mod.ts";
import { CLIENT_HASHES, clientHash, destinationHash } from "./hashes.ts";
import type { EndpointMapName } from "./sets.ts";
import { endpointElement, type ListName, servicePortHash } from "./table.ts";
import type { Listing } from "./transaction.ts";

/** A service port, and what the kernel adds to it. */
export interface NumberedPort extends ServicePort {
  /** The numbers of the endpoints of both lists; only with session affinity. */
  readonly numbering?: Numbering;
}

/** The numbers of a service port's endpoints. */
interface Numbering {
  readonly numbers: ReadonlyMap<string, number>;
  /** The numbers of endpoints that are gone, whose clients may still be remembered. */
  readonly spent: ReadonlySet<number>;
}

/** A number has 16 bits: where endpoints and spent numbers are more, these are given again. */
const MOST_NUMBERS = 65_536;

/** The numbering of a service port, in which each endpoint keeps its number in `held`. */
export function numberingOf({ clusterEndpoints, localEndpoints }: ServicePort, held?: Numbering): Numbering {
  const endpoints = new Set([...clusterEndpoints, ...localEndpoints]);
  const taken = new Set<number>(), spent = new Set(held?.spent);
  for (const [endpoint, number] of held?.numbers ?? []) (endpoints.has(endpoint) ? taken : spent).add(number);
  if (endpoints.size + spent.size > MOST_NUMBERS) spent.clear();
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

/**
 * The numbering of a service port in a listing.
 * @param isFirst whether the process has read no listing before: then the numbering of `port` only applies if the listing has no
 * numbers of its endpoints. Later, it also completes what another program deleted.
 */
export function numberingIn(listing: Listing, port: NumberedPort, isFirst: boolean): Numbering {
  const numbers = new Map([...numbersOfShared(listing, port), ...numbersOfOwn(listing, port)]);
  const live = new Set(numbers.values()), otherwise = port.numbering;
  if (isFirst && numbers.size === 0 && otherwise) return otherwise;
  for (const [endpoint, number] of isFirst ? [] : otherwise?.numbers ?? []) {
    if (numbers.has(endpoint) || live.has(number)) continue;
    numbers.set(endpoint, number);
    live.add(number);
  }
  const clients = listing.get("clients"), ofPort = clients?.get(String(serviceNumber(port)));
  // As long as nobody reads the clients, all numbers that were given may have some.
  const spent = clients ? ofPort?.split(" ").map(Number) ?? [] : [...otherwise?.spent ?? []];
  return { numbers, spent: new Set(spent.filter((number) => !live.has(number))) };
}

/** The numbers of endpoints in the maps of endpoints, if chains that service ports share serve this one. */
function* numbersOfShared(listing: Listing, port: ServicePort): Generator<readonly [string, number]> {
  const { protocol, clusterIP } = port;
  const verdict = listing.get("services")?.get(`${clusterIP} . ${protocol} . ${port.port}`) ?? "";
  const byElement = new Map(
    [...port.clusterEndpoints, ...port.localEndpoints].map((endpoint) => [endpointElement(endpoint), endpoint]),
  );
  for (const name of withBlocks(listing, verdict.slice("goto ".length))) {
    const { numbers = [], seconds = 0 } = parseShared(name) ?? {};
    for (const number of numbers) {
      // Earlier versions had the endpoints in the map of those without session affinity.
      const elements = listing.get(endpointMap(protocol, seconds, number)) ?? listing.get(`${protocol}-endpoints`);
      const endpoint = byElement.get(elements?.get(`${clusterIP} . ${port.port} . ${number}`) ?? "");
      if (endpoint !== undefined) yield [endpoint, number];
    }
  }
}

/** The numbers of endpoints in the chains that only this service port has. */
function* numbersOfOwn(listing: Listing, port: ServicePort): Generator<readonly [string, number]> {
  const { cluster, local } = ownAffinityNames(port);
  for (const name of [cluster, local].flatMap((name) => withBlocks(listing, name))) {
    const rules = listing.get("chain")!.get(name) ?? "";
    for (const [, offset = "0", endpoint] of rules.matchAll(OF_KNOWN_CLIENTS)) {
      yield [endpoint!, Number(offset) / CLIENT_HASHES];
    }
  }
}

/** A chain of a listing, and those to which it jumps. */
function withBlocks(listing: Listing, name: string): string[] {
  const rules = listing.get("chain")!.get(name) ?? "";
  return [name, ...rules.matchAll(/^jump (\S+)$/gm).map(([, block]) => block!)];
}

/** Matches a rule for known clients: the offset of the number of its endpoint, and the endpoint. */
const OF_KNOWN_CLIENTS = / seed \S+(?: offset (\d+))? @clients .* dnat to (\S+)$/gm;

/** The element of a client in the set of clients, for a service port and one of its endpoints. */
export function clientElement(port: ServicePort, number: number, client: string): string {
  return `${serviceNumber(port)} . ${number * CLIENT_HASHES + clientHash(client)}`;
}

/** The number of a service port in the set of clients: a hash of its cluster IP, protocol and port. */
export function serviceNumber({ clusterIP, protocol, port }: ServicePort): number {
  return destinationHash({ address: clusterIP, protocol, port });
}

/** The names of the chains for both lists and for external traffic. */
export interface AffinityChainNames {
  readonly cluster: string;
  readonly local: string;
  readonly external: string;
  /** The names of everything that it shares with other service ports; undefined if its own chains name the endpoints. */
  readonly shared?: SharedAffinityNames;
}

/** The chains and the maps of endpoints that a service port shares with others. */
interface SharedAffinityNames {
  readonly chains: readonly string[];
  readonly maps: readonly EndpointMapName[];
}

/** The names of the chains that serve a service port with session affinity: its own, and those that it shares. */
export function affinityChainNames(port: NumberedPort): AffinityChainNames {
  const own = ownAffinityNames(port);
  // A packet to another address than the cluster IP does not have the key of the endpoints, and a table has other probabilities.
  if (port.balance !== undefined || hasExternalFrontends(port)) return own;
  const { protocol, affinitySeconds } = port;
  const numbers = endpointNumbers(port, sharedList(port)).sort((a, b) => a - b), blocks = blocksOf(numbers);
  const maps = blocks.map((block) => endpointMap(protocol, affinitySeconds, block.numbers[0]!));
  const runs = runsOf(numbers).map(({ first, length }) => length === 1 ? first : `${first}-${first + length - 1}`);
  const name = `affinity-to-${protocol}-${affinitySeconds}-${runs.join(".")}`;
  if (numbers.length <= LONGEST_CHAIN && name.length <= LONGEST_NAME) {
    return { cluster: name, local: name, external: name, shared: { chains: [name], maps } };
  }
  const chains = blocks.map((block) => sharedBlock(port, block)).flatMap(({ known, fresh }) => [known, fresh]);
  return { ...own, shared: { chains, maps } };
}

/**
 * The map with the endpoint of a number, for all service ports with this timeout whose chains are shared. For a chain with a rule
 * that looks into a map, the kernel goes through all elements of the map and all other rules with it: one map for all would make a
 * change as slow as the services of the whole cluster are large.
 */
export function endpointMap(protocol: Protocol, seconds: number, number: number): EndpointMapName {
  return `endpoints-${protocol}-${seconds}-${Math.floor(number / NUMBERS_PER_MAP)}`;
}

/** The list of endpoints of a service port that shares chains: it has a single frontend. */
export function sharedList(port: ServicePort): ListName {
  return port.internal === "local" ? "local" : "cluster";
}

function ownAffinityNames(port: ServicePort): AffinityChainNames {
  const owner = servicePortHash(port);
  return {
    cluster: `affinity-${owner}`,
    local: `affinity-local-${owner}`,
    external: `affinity-external-${owner}`,
  };
}

/** Numbers that follow each other. */
interface Run {
  readonly first: number;
  length: number;
}

/** The runs of numbers in ascending order. */
export function runsOf(numbers: readonly number[]): readonly Run[] {
  const runs: Run[] = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && last.first + last.length === number) last.length++;
    else runs.push({ first: number, length: 1 });
  }
  return runs;
}

/** The longest name of a shared chain: a name may have 127 characters in all. */
const LONGEST_NAME = 100;

/** The most endpoints of one chain; a service port with more has blocks. */
export const LONGEST_CHAIN = 64;

/** The numbers of a block, one for each bit in the name of its chains. */
const BLOCK_SIZE = 16;

/** The numbers of a map, whole blocks: nft reads the declarations of all maps for each transaction. */
const NUMBERS_PER_MAP = 32;

/** A block of numbers: the first is `index` times 16. */
interface Block {
  readonly index: number;
  readonly numbers: readonly number[];
}

/** The blocks of numbers, in ascending order. */
export function blocksOf(numbers: readonly number[]): readonly Block[] {
  const blocks = Map.groupBy([...numbers].sort((a, b) => a - b), (number) => Math.floor(number / BLOCK_SIZE));
  return Array.from(blocks, ([index, numbers]) => ({ index, numbers }));
}

/** The names of a block's chains: for clients that it knows, and for new ones. */
export interface BlockNames {
  readonly known: string;
  readonly fresh: string;
}

/** `affinity-to-known-tcp-10800-1-0005` finds clients of the endpoints 16 and 18. */
export function sharedBlock({ protocol, affinitySeconds }: ServicePort, { index, numbers }: Block): BlockNames {
  const mask = numbers.reduce((bits, number) => bits | 1 << number % BLOCK_SIZE, 0);
  const rest = `${protocol}-${affinitySeconds}-${index}-${mask.toString(16).padStart(4, "0")}`;
  return { known: `affinity-to-known-${rest}`, fresh: `affinity-to-new-${rest}` };
}

/** The chain for known clients of the block whose chain for new ones has this name. */
export function knownOf(fresh: string): string {
  return fresh.replace("-new-", "-known-");
}

/** The numbers of the endpoints of a list. */
export function endpointNumbers(port: NumberedPort, list: ListName): number[] {
  const { numbers } = port.numbering ?? numberingOf(port);
  return (list === "cluster" ? port.clusterEndpoints : port.localEndpoints).map((endpoint) => numbers.get(endpoint)!);
}

// Earlier versions had the prefix `affinity-`.
const SHARED = /^affinity-(?:to-)?(tcp|udp|sctp)-(\d+)-(\d+(?:[.-]\d+)*)$/;
const SHARED_BLOCK = /^affinity-(?:to-)?(known|new)-(tcp|udp|sctp)-(\d+)-(\d+)-([\da-f]{4})$/;

/** The purpose of a shared chain. */
interface SharedChain {
  readonly protocol: Protocol;
  readonly seconds: number;
  readonly numbers: readonly number[];
  /** The clients that it serves, if it is one of a block. */
  readonly clients?: "known" | "new";
}

/** The purpose of the shared chain with this name; undefined if no such chain has it. */
export function parseShared(name: string): SharedChain | undefined {
  const [, protocol, seconds, texts] = SHARED.exec(name) ?? [];
  if (texts !== undefined) {
    const numbers = texts.split(".").flatMap((text) => {
      const [first = 0, last = first] = text.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
    return { protocol: protocol as Protocol, seconds: Number(seconds), numbers };
  }
  const block = SHARED_BLOCK.exec(name);
  if (block === null) return undefined;
  const start = Number(block[4]) * BLOCK_SIZE, mask = parseInt(block[5]!, 16);
  return {
    protocol: block[2] as Protocol,
    seconds: Number(block[3]),
    numbers: Array.from({ length: BLOCK_SIZE }, (_, i) => i).filter((i) => mask >>> i & 1).map((i) => start + i),
    clients: block[1] as "known" | "new",
  };
}
