/**
 * The counters of connection attempts, by which the main isolate detects endpoints that do not answer.
 *
 * Every SYN packet to an endpoint is counted, and every SYN-ACK packet that comes back. The rules of new packets are in
 * chains of their own then, behind one match, so that an established packet is compared with two rules, no matter how many
 * there are for new ones.
 */
import type { Attempts, FamilySettings } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { BaseChain } from "./base_chains.ts";
import type { Dialect, SetDeclaration, TrafficSetName } from "./table.ts";

/** The set of the counters. */
export const ATTEMPTS = "count-attempts" satisfies TrafficSetName;

/** The number of counters in a table, two for each endpoint. */
const MOST_COUNTERS = 65_536;
/** The time after its last packet for which a counter is kept, in seconds. */
const KEPT_SECONDS = 30;

/** The settings that decide whether attempts are counted. */
export type Counting = Pick<FamilySettings, "countsAttempts">;

/** The set of counters, by endpoint and direction; none if attempts are not counted. */
export function attemptSets(
  { countsAttempts }: Counting,
  { ip }: Dialect,
): (readonly [TrafficSetName, SetDeclaration])[] {
  if (!countsAttempts) return [];
  const lines = [
    `typeof ${ip} daddr . tcp dport . ct direction`,
    `size ${MOST_COUNTERS}`,
    "flags dynamic,timeout",
    "counter",
    `timeout ${KEPT_SECONDS}s`,
  ];
  return [[ATTEMPTS, { kind: "set", lines }]];
}

/** The chains through which packets reach endpoints, and the answers come back. */
const PASSED: readonly string[] = ["filter-input", "filter-forward", "filter-output"];
const OF_NEW_PACKETS = "ct state new ";

/** The fixed chains with the rules that count attempts, if these are counted. */
export function withAttemptCounters(
  chains: readonly BaseChain[],
  { countsAttempts }: Counting,
  { ip }: Dialect,
): readonly BaseChain[] {
  if (!countsAttempts) return chains;
  const update = (address: string, port: string) =>
    `ct status dnat update @${ATTEMPTS} { ${ip} ${address} . tcp ${port} . ct direction }`;
  return chains.flatMap((chain): BaseChain[] => {
    if (!PASSED.includes(chain.name)) return [chain];
    const name = `${chain.name}-new`;
    const ofNew = chain.rules.filter((rule) => rule.startsWith(OF_NEW_PACKETS));
    const ofAll = chain.rules.filter((rule) => !ofNew.includes(rule));
    const rules = [update("daddr", "dport"), ...ofNew.map((rule) => rule.slice(OF_NEW_PACKETS.length))];
    const answers = `tcp flags syn,ack / syn,ack ${update("saddr", "sport")}`;
    return [{ name, hook: undefined, rules }, { ...chain, rules: [...ofAll, `ct state new goto ${name}`, answers] }];
  });
}

const COUNTER = /(\S+) \. (\d+) \. (original|reply) .*?counter packets (\d+)/;

/** Reads a line of the listing of the set into the counts so far. */
export function readAttempts(line: string, counts: Map<string, Attempts>): void {
  const match = COUNTER.exec(line);
  if (!match) return;
  const [, address, port, direction, packets] = match;
  const endpoint = joinHostPort(address!, Number(port));
  const { made, answered } = counts.get(endpoint) ?? { made: 0, answered: 0 };
  const count = Number(packets);
  counts.set(endpoint, direction === "reply" ? { made, answered: count } : { made: count, answered });
}
