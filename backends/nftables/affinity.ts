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
 *
 * Each endpoint needs two rules. A large service has them in chains of 16 numbers, so that a replaced endpoint writes the chains of
 * two such blocks and the one that leads to them, not all rules. With a `Balance`, the draws stay in one chain, since they depend on
 * all endpoints.
 */
import {
  type FamilySettings,
  hasExternalFrontends,
  isPolicyLocal,
  type Protocol,
  type ServicePort,
} from "../../core/model/mod.ts";
import {
  type AffinityChainNames,
  type BlockNames,
  blocksOf,
  endpointMap,
  endpointNumbers,
  knownOf,
  LONGEST_CHAIN,
  type NumberedPort,
  parseShared,
  runsOf,
  serviceNumber,
  sharedBlock,
  sharedList,
} from "./affinity_names.ts";
import { CLIENT_HASHES, clientHashText, destinationHashText } from "./hashes.ts";
import { type Draw, drawOf, drawText, tableOf } from "./endpoints.ts";
import { type Dialect, durationText, fromThisNode, type ListName, setMark } from "./table.ts";
import { chainText, type Item } from "./transaction.ts";

/** The rules of a shared chain by its name; undefined if no such chain has it. */
export function affinityRules(name: string, { ip }: Dialect): string[] | undefined {
  const chain = parseShared(name);
  if (chain === undefined) return undefined;
  const { protocol, seconds, numbers, clients } = chain;
  const statement = (drawn: string, number: number) =>
    `dnat ${ip} to ${ip} daddr . ${protocol} dport . ${drawn} map @${endpointMap(protocol, seconds, number)}`;
  const endpoints: Endpoints = {
    ip,
    seconds,
    service: destinationHashText(ip, protocol),
    statementOf: (number) => statement(constantText(number), number),
  };
  const runs = blocksOf(numbers).flatMap((block) => runsOf(block.numbers));
  const unremembered = runs.map(({ first, length }) => ({
    weight: length,
    statement: statement(drawText("random", length, ip, protocol) + offsetText(first), first),
  }));
  if (clients === "known") return knownRules(endpoints, numbers);
  const draws = equalDraws("random", numbers, ip, protocol), spread = weightedRules(unremembered, ip, protocol);
  // For each rule with a map, the kernel goes through all others with the map, so a block has one for each endpoint.
  if (clients === "new") return [...newRules(endpoints, draws, () => `goto ${knownOf(name)}`), ...spread];
  return [...knownRules(endpoints, numbers), ...newRules(endpoints, draws), ...spread];
}

/** The chains with these names that only this service port has, in an order in which each refers only to earlier ones. */
export function ownAffinityChains(
  names: AffinityChainNames,
  port: NumberedPort,
  settings: FamilySettings,
  dialect: Dialect,
): Item[] {
  const chains: Item[] = [];
  const add = (key: string, rules: readonly string[]) =>
    chains.push({ list: "chain", key, text: chainText(undefined, rules) });
  if (names.shared) {
    const list = sharedList(port), numbers = endpointNumbers(port, list);
    if (numbers.length === 0 || names.shared.chains.includes(names[list])) return [];
    const blocks = blocksOf(numbers).map((block) => ({ ...sharedBlock(port, block), weight: block.numbers.length }));
    add(names[list], headRules(blocks, dialect.ip, port.protocol));
    return chains;
  }
  for (const list of ["cluster", "local"] as const) {
    for (const [key, rules] of ownListChains(names[list], port, list, dialect)) add(key, rules);
  }
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

/** The chains that name the endpoints of a list, each with its name. */
function* ownListChains(
  name: string,
  port: NumberedPort,
  list: ListName,
  { ip }: Dialect,
): Generator<readonly [string, readonly string[]]> {
  const { protocol } = port, names = list === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  if (names.length === 0) return;
  const inOrder = endpointNumbers(port, list), byNumber = new Map(names.map((name, i) => [inOrder[i]!, name]));
  // After a restart, the endpoints are in another order, which makes no difference but for tables.
  const numbers = port.balance ? inOrder : inOrder.sort((a, b) => byNumber.get(a)! < byNumber.get(b)! ? -1 : 1);
  const endpoints: Endpoints = {
    ip,
    seconds: port.affinitySeconds,
    service: constantText(serviceNumber(port)),
    statementOf: (number) => `meta l4proto ${protocol} dnat to ${byNumber.get(number)}`,
  };
  const forNew = (draws: readonly NumberedDraw[]) => [
    ...newRules(endpoints, draws),
    ...draws.map(({ number, match }) => match + endpoints.statementOf(number)),
  ];
  const draw = drawOf(port), draws = tableDraws(port, list, numbers, ip) ?? equalDraws(draw, numbers, ip, protocol);
  if (numbers.length <= LONGEST_CHAIN) return yield [name, [...knownRules(endpoints, numbers), ...forNew(draws)]];
  const blocks = blocksOf(numbers).map(({ index, numbers }) => ({
    known: `${name}-known-${index}`,
    fresh: `${name}-new-${index}`,
    weight: numbers.length,
    numbers,
  }));
  for (const { known, numbers } of blocks) yield [known, knownRules(endpoints, numbers)];
  // The draws of an algorithm or of weights depend on all endpoints.
  if (port.balance) return yield [name, [...jumps(blocks), ...forNew(draws)]];
  for (const { fresh, numbers } of blocks) yield [fresh, forNew(equalDraws(draw, numbers, ip, protocol))];
  yield [name, headRules(blocks, ip, protocol)];
}

/** The rules of the chain that leads to the blocks' chains: to all for known clients, to one at random for a new one. */
function headRules(
  blocks: readonly (BlockNames & { readonly weight: number })[],
  ip: "ip" | "ip6",
  protocol: Protocol,
): string[] {
  const drawn = blocks.map(({ fresh, weight }) => ({ weight, statement: `goto ${fresh}` }));
  return [...jumps(blocks), ...weightedRules(drawn, ip, protocol)];
}

function jumps(blocks: readonly BlockNames[]): string[] {
  return blocks.map(({ known }) => `jump ${known}`);
}

/** A number of 32 bits in a key. nft has no other constant of a size that it knows. */
function constantText(number: number): string {
  return `numgen random mod 1${offsetText(number)}`;
}

function offsetText(number: number): string {
  return number === 0 ? "" : ` offset ${number}`;
}

/** The endpoints of a chain: their clients' keys, and the statement that sends a packet to one. */
interface Endpoints {
  readonly ip: "ip" | "ip6";
  readonly seconds: number;
  /** The expression with the number of the service port. */
  readonly service: string;
  readonly statementOf: (number: number) => string;
}

/** The number of an endpoint, and the match with which a new client gets it, with a trailing space; empty if it is everything. */
interface NumberedDraw {
  readonly number: number;
  readonly match: string;
}

function clientKey({ ip, service }: Endpoints, number: number): string {
  return `${service} . ${clientHashText(ip)}${offsetText(number * CLIENT_HASHES)}`;
}

/** Remembers a client, or renews it. `update` ends a rule if the kernel has no room. */
function rememberText(endpoints: Endpoints, number: number): string {
  return `update @clients { ${clientKey(endpoints, number)} timeout ${durationText(endpoints.seconds)} }`;
}

/** A rule per endpoint for its clients. */
function knownRules(endpoints: Endpoints, numbers: readonly number[]): string[] {
  return numbers.map((number) =>
    `${clientKey(endpoints, number)} @clients ${rememberText(endpoints, number)} ${endpoints.statementOf(number)}`
  );
}

/**
 * A rule per endpoint for new clients, which picks it with the right probability and remembers them.
 * @param then the rule's last statement; by default, the one that sends the packet to the endpoint
 */
function newRules(endpoints: Endpoints, draws: readonly NumberedDraw[], then = endpoints.statementOf): string[] {
  return draws.map(({ number, match }) => `${match}${rememberText(endpoints, number)} ${then(number)}`);
}

/** Rules of which one is applied, with a probability by its weight; the last one matches what no other did. */
function weightedRules(
  choices: readonly { readonly weight: number; readonly statement: string }[],
  ip: "ip" | "ip6",
  protocol: Protocol,
): string[] {
  let left = choices.reduce((sum, { weight }) => sum + weight, 0);
  return choices.map(({ weight, statement }) => {
    const match = left === weight ? "" : `${drawText("random", left, ip, protocol)} < ${weight} `;
    left -= weight;
    return match + statement;
  });
}

/** Draws with equal probabilities: each rule draws a new number, and the last one matches every client that no other did. */
function equalDraws(draw: Draw, numbers: readonly number[], ip: "ip" | "ip6", protocol: Protocol): NumberedDraw[] {
  return numbers.map((number, i) => {
    const left = numbers.length - i;
    return { number, match: left === 1 ? "" : `${drawText(draw, left, ip, protocol)} 0 ` };
  });
}

/**
 * Draws by the table of a list; undefined without one. With `random` and `turn`, each rule draws a new number, and the last rule
 * matches every client that no other did. With a hash, a client has the same number in every rule, so each rule matches its own
 * numbers.
 */
function tableDraws(
  port: ServicePort,
  list: ListName,
  numbers: readonly number[],
  ip: "ip" | "ip6",
): NumberedDraw[] | undefined {
  const { protocol } = port, table = tableOf(port, list), draw = drawOf(port);
  if (table === undefined) return undefined;
  const slots = numbers.map((number) => ({ number, own: [] as number[] }));
  table.forEach((index, slot) => slots[index]!.own.push(slot));
  const used = slots.filter(({ own }) => own.length > 0);
  const isHash = draw === "flow" || draw === "client";
  let left = table.length;
  return used.map(({ number, own }, i) => {
    const of = left;
    left -= own.length;
    if (used.length === 1 || !isHash && i === used.length - 1) return { number, match: "" };
    if (!isHash) return { number, match: `${drawText(draw, of, ip, protocol)} < ${own.length} ` };
    const match = own.length === 1 ? own[0] : `{ ${own.join(", ")} }`;
    return { number, match: `${drawText(draw, table.length, ip, protocol)} ${match} ` };
  });
}
