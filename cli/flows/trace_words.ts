import type { ServicePortName } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { Trace, TracedPacket, TraceStep } from "./trace_events.ts";

/** The table of Sluice's nftables mode. */
const OWN_TABLE = "sluice";
/** The start of the name of the table with the rule that starts the trace; the id of the process follows. */
export const TRACE_TABLE = "sluice-trace-";

/** The owner of a rule that dropped or rejected a packet, and its reason. */
export interface DropReason {
  /** `service`, `policy` and `source-range` are Sluice's; `other` belongs to another program. */
  readonly owner: "service" | "policy" | "source-range" | "other";
  readonly reason: string;
  /** `ip sluice services-check`. */
  readonly place: string;
  /** The rule as nft prints it. */
  readonly rule: string;
}

/** The rules of Sluice that refuse packets, by a part of their text or chain. */
const REFUSALS: readonly (readonly [RegExp, DropReason["owner"], string])[] = [
  [/ @refused /, "service", "rejected: the service has no usable endpoint"],
  [/ @dropped /, "policy", "dropped: traffic policy Local, and this node has no usable endpoint"],
  [/^firewalled /, "source-range", "dropped: the client is not in the source ranges of the load balancer"],
  [/ @cluster-ips reject$/, "service", "rejected: no service has this port of the cluster IP"],
  [/^filter-(forward|output) ct state \S+ ip6? daddr \S+ drop$/, "service", "dropped: no service has this address"],
];

/** The rules of iptables mode that refuse packets. nft does not print their comments. */
const KUBE_REFUSALS: readonly (readonly [RegExp, DropReason["owner"], string])[] = [
  [
    /^KUBE-(EXTERNAL-SERVICES|SERVICES|NODEPORTS) .*\breject\b/,
    "service",
    "rejected: the service has no usable endpoint",
  ],
  [
    /^KUBE-(EXTERNAL-SERVICES|SERVICES|NODEPORTS) .*\bdrop$/,
    "policy",
    "dropped: traffic policy Local, and this node has no usable endpoint",
  ],
  [
    /^KUBE-(PROXY-FIREWALL|FW)\b/,
    "source-range",
    "dropped: the client is not in the source ranges of the load balancer",
  ],
];

/** The reason why the last rule of a trace dropped its packet. */
export function dropReason({ steps }: Pick<Trace, "steps">): DropReason {
  const step = steps.at(-1)!;
  const known = step.table === OWN_TABLE ? REFUSALS : step.chain.startsWith("KUBE-") ? KUBE_REFUSALS : [];
  const found = known.find(([pattern]) => pattern.test(`${step.chain} ${step.rule}`));
  const [, owner, reason] = found ?? [/./, "other" as const, otherReason(step)];
  return { owner, reason, place: placeOf(step), rule: step.rule };
}

function otherReason({ rule, table }: TraceStep): string {
  return `dropped by ${rule === "policy" ? "the policy of a chain" : "a rule"} of table ${table}: another program's`;
}

/** `ip sluice services-check`. */
export function placeOf({ family, table, chain }: Pick<TraceStep, "family" | "table" | "chain">): string {
  return `${family === "IPv4" ? "ip" : "ip6"} ${table} ${chain}`;
}

/** The steps of a trace that are shown: without the trace's own rule, and without the ends of chains. */
export function shownSteps({ steps }: Pick<Trace, "steps">): readonly TraceStep[] {
  return steps.filter(({ table, rule, verdict }) =>
    !table.startsWith(TRACE_TABLE) && rule !== "" && (rule !== "policy" || verdict === "drop")
  );
}

/** The statement that translates the destination. */
const TRANSLATION = /\bdnat (?:ip6? )?to /;

/**
 * Explains a step in words; the text of the rule for a rule of another program.
 * @param service the service port of the destination, if it has one
 * @param next the packet at the next hook, which shows how a rule has changed it
 */
export function stepText(
  step: TraceStep,
  service: ServicePortName | undefined,
  next: TracedPacket | undefined,
): string {
  const { table, chain, rule, verdict, packet } = step;
  if (verdict === "drop") return dropReason({ steps: [step] }).reason;
  const words = table === OWN_TABLE ? ownRuleText(step, service ?? "a service") : undefined;
  if (words !== undefined && !TRANSLATION.test(rule)) return words;
  const moved = next && packet && (next.destination !== packet.destination ||
    next.destinationPort !== packet.destinationPort);
  if (TRANSLATION.test(rule) || chain.startsWith("KUBE-SEP-")) {
    return moved
      ? `sends it to the endpoint ${joinHostPort(next.destination, next.destinationPort)}`
      : "sends it to an endpoint";
  }
  const text = rule.replace(/ *counter packets \d+ bytes \d+/, "").trim();
  return `${text}${verdict === "continue" || text.endsWith(verdict) ? "" : ` (${verdict})`}`.trim();
}

/** Explains a rule of Sluice's nftables mode; undefined for one without an explanation. */
function ownRuleText({ chain, rule, verdict }: TraceStep, service: string): string | undefined {
  const texts: readonly (readonly [RegExp, string])[] = [
    [/ vmap @services$/, `is for ${service}: ${chainText(verdict)}`],
    [/ vmap @shortcuts$/, `is traffic of this node: any endpoint of ${service} may serve it`],
    [/^jump services$/, "looks for a service with this destination"],
    [/goto nodeports$/, "is for this node: looks for a node port"],
    [/jump firewall-check$/, "checks the source ranges of load balancers"],
    [/ @firewalled goto firewalled$/, `is for a load balancer of ${service} with source ranges`],
    [/ @source-ranges return$/, "comes from an address in these ranges"],
    [/jump services-check$/, "checks that its service has usable endpoints"],
    [/goto nodeports-check$/, "checks that its node port has usable endpoints"],
    [/ meta mark set meta mark \| /, "is marked, to be sent from this node's address"],
    [/^meta mark set meta mark & /, "loses the mark"],
    [/^meta mark & \S+ == 0x0+ return$|^meta mark 0x0+\/1 return$/, "is not marked: it keeps its source"],
    [/masquerade fully-random$/, "is sent from this node's address"],
    [/jump count-|^count-/, "is counted"],
    [/update @count-/, "is counted"],
    [/ update @clients-\S+ /, "is remembered, so that this client stays with its endpoint"],
  ];
  if (chain.startsWith("count-")) return "is counted";
  return texts.find(([pattern]) => pattern.test(rule))?.[1];
}

function chainText(verdict: string): string {
  const chain = verdict.replace(/^goto /, "");
  const count = /^(?:nodeport-)?(?:pick|external|external-local|shortcut)-\w+-(\d+)$/.exec(chain)?.[1];
  if (count === "1") return `it has one endpoint (chain ${chain})`;
  if (count !== undefined) return `one of ${count} endpoints is picked (chain ${chain})`;
  return `chain ${chain}`;
}
