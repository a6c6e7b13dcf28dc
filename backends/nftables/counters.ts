/**
 * Counters in the kernel: the traffic, if traffic metrics are on, and connection attempts, by which the main isolate detects
 * endpoints that do not answer.
 *
 * Rules add an element with a counter to a set for each pair of frontend and endpoint, and for each frontend whose packets
 * fail. Elements expire when the traffic ends, so that the sets hold the active pairs only. A pair is counted under its hash
 * (see hashes.ts); `count-pairs` has the pair itself, unless the frontend is at a cluster IP, whose pairs are planned.
 *
 * A connection is counted in nat chains, which see its first packet only: right before the sources are translated, or, if
 * the endpoint is on the host network, right before delivery. A packet is counted where it is forwarded, sent, or
 * received from another host. The original destination and the source of replies are those of the connection, so that
 * packets of both directions count for the same pair.
 *
 * Every SYN packet to an endpoint is counted as an attempt, and every SYN-ACK packet that comes back as an answer. With
 * attempts counted, the rules for new packets are in separate chains behind one match, so that a packet of an established
 * connection passes two rules, however many there are for new ones.
 */
import {
  type AttemptCounts,
  type Attempts,
  type FamilySettings,
  type Protocol,
  PROTOCOLS,
} from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import { hashText } from "./hashes.ts";
import type { SetName } from "./sets.ts";
import { type BaseChain, type Dialect, frontendKey } from "./table.ts";

/** The sets of failures, by the set that refuses the packets. */
const FAILURE_SETS = {
  refused: "count-rejected",
  dropped: "count-dropped",
  sources: "count-outside",
} as const satisfies Readonly<Record<string, SetName>>;

/** The chains that count: those that are jumped to, and those with hooks of their own. */
export function trafficChains(settings: FamilySettings, dialect: Dialect): {
  readonly inner: readonly BaseChain[];
  readonly hooked: readonly BaseChain[];
} {
  if (!settings.countTraffic) return { inner: [], hooked: [] };
  const { ip } = dialect;
  const pair =
    `ct original ${ip} daddr . meta l4proto . ct original proto-dst . ct reply ${ip} saddr . ct reply proto-src`;
  // nft 1.0.6 knows the type of ct's ports only after a match of one protocol.
  const count = (statements: string, protocols: readonly Protocol[] = PROTOCOLS) =>
    protocols.map((protocol) => `meta l4proto ${protocol} ${statements}`);
  const update = (set: SetName, key: string) => `update @${set} { ${key} }`;
  const hash = hashText(pair);
  const counted = `${update("count-connections", hash)} ct original ${ip} daddr != @cluster-ips ${
    update("count-pairs", pair)
  }`;
  const connections = (name: string, hook: string): BaseChain => (
    { name, hook, rules: ["ct status dnat jump count-connections"] }
  );
  return {
    inner: [
      { name: "count-connections", hook: undefined, rules: count(counted) },
      { name: "count-packets", hook: undefined, rules: count(`${update("count-packets", hash)} return`) },
      // Not UDP, since some of its protocols have no answers.
      { name: "count-unanswered", hook: undefined, rules: count(update("count-unanswered", pair), ["tcp"]) },
    ],
    hooked: [
      // Other programs may masquerade at srcnat, and later nat chains would not see the packet.
      connections("count-postrouting", "type nat hook postrouting priority srcnat - 1; policy accept;"),
      connections("count-input", "type nat hook input priority 99; policy accept;"),
    ],
  };
}

/** The rules of a filter chain that count all packets, and those for new ones; none if traffic metrics are off. */
export function countPackets(
  { countTraffic }: FamilySettings,
  hook: "input" | "forward" | "output",
): { readonly ofAll: readonly string[]; readonly ofNew: readonly string[] } {
  if (!countTraffic) return { ofAll: [], ofNew: [] };
  // Packets of this node to itself are counted when they are sent.
  const received = hook === "input" ? 'iifname != "lo" ' : "";
  return {
    ofAll: [`${received}ct status dnat jump count-packets`],
    // A connection is confirmed once its first packet has left, and new until the answer: its first packet is repeated.
    ofNew: [`${received}ct status dnat ct status confirmed jump count-unanswered`],
  };
}

/** The statement that counts a packet of a new connection that the set refuses, with a trailing space. */
export function countFailure(
  { countTraffic }: FamilySettings,
  set: keyof typeof FAILURE_SETS,
  dialect: Dialect,
  nodePort = false,
): string {
  return countTraffic ? `update @${FAILURE_SETS[set]} { ${frontendKey(dialect, nodePort)} } ` : "";
}

/** The set of the counters of attempts. */
export const ATTEMPTS = "count-attempts" satisfies SetName;

/** The rules that count attempts of new connections, and answers to them. */
export function countAttempts({ ip }: Dialect): { readonly attempts: string; readonly answers: string } {
  const update = (address: string, port: string) =>
    `ct status dnat update @${ATTEMPTS} { ${ip} ${address} . tcp ${port} . ct direction }`;
  return {
    attempts: update("daddr", "dport"),
    answers: `tcp flags syn,ack / syn,ack ${update("saddr", "sport")}`,
  };
}

const COUNTER = /(\S+) \. (\d+) \. (original|reply) .*?counter packets (\d+)/;

/** The counts of attempts so far, by endpoint, from the elements of their set. */
export function attemptsIn(elements: readonly string[]): AttemptCounts {
  const counts = new Map<string, Attempts>();
  for (const element of elements) {
    const match = COUNTER.exec(element);
    if (!match) continue;
    const [, address, port, direction, packets] = match;
    const endpoint = joinHostPort(address!, Number(port));
    const { made, answered } = counts.get(endpoint) ?? { made: 0, answered: 0 };
    const count = Number(packets);
    counts.set(endpoint, direction === "reply" ? { made, answered: count } : { made: count, answered });
  }
  return counts;
}
