/** The path of a packet: its rules, from the output of nft, in words, and the reasons of drops. */
import { type Runner, runOrThrow } from "../../backends/tools/mod.ts";
import type { Protocol, ServicePortName } from "../../core/model/mod.ts";
import { canonicalAddress, type Clock, type Family, joinHostPort, timeOfDay } from "../../platform/mod.ts";
import { type Flow, FOREVER_MS } from "./flow.ts";

interface TracedPacket {
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  readonly protocol: Protocol;
  /** The interface on which it arrived; empty if this node sends it. */
  readonly inInterface: string;
  /** The interface on which it leaves; empty if it does not leave, or not yet. */
  readonly outInterface: string;
}

/** A rule that a packet met, or the policy of a chain. */
interface TraceStep {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
  /** The rule as nft prints it; `policy` for the policy of a chain. */
  readonly rule: string;
  /** `accept`, `drop`, `jump services`, … */
  readonly verdict: string;
  /** The packet when it entered the hook; undefined if nft did not print it. */
  readonly packet: TracedPacket | undefined;
}

/** The path of one packet through the kernel's rules. */
export interface Trace {
  readonly steps: readonly TraceStep[];
  /** The packet at its first hook, and at its last one. */
  readonly first: TracedPacket;
  readonly last: TracedPacket;
  readonly isDropped: boolean;
}

/** nft does not print the end of a trace: it is over after this time without output. */
const QUIET_MS = 300;
const MOST_TRACES = 10_000;

const LINE = /^trace id (\w+) (ip6?|inet) (\S+) (\S+) (packet: |rule |unknown rule |verdict |policy )(.*)$/;

/**
 * Passes on the traces that `nft monitor trace` prints, until the runner's signal is aborted: each when its packet is dropped, or
 * when nothing more follows.
 */
export async function readTraces(runner: Runner, clock: Clock, onTrace: (trace: Trace) => void): Promise<void> {
  interface Collected {
    readonly steps: TraceStep[];
    readonly packets: TracedPacket[];
    cancel: () => void;
  }
  const collected = new Map<string, Collected>();
  const finish = (id: string) => {
    const { steps, packets, cancel } = collected.get(id)!;
    cancel();
    collected.delete(id);
    const [first] = packets, last = packets.at(-1);
    if (first === undefined || last === undefined) return;
    onTrace({ steps, first, last, isDropped: steps.at(-1)?.verdict === "drop" });
  };
  const onLine = (line: string) => {
    const match = LINE.exec(line);
    if (!match) return;
    const [, id, keyword, table, chain, kind, rest] = match;
    if (!collected.has(id!) && (kind !== "packet: " || collected.size >= MOST_TRACES)) return;
    const trace = collected.get(id!) ?? { steps: [], packets: [], cancel: () => {} };
    collected.set(id!, trace);
    trace.cancel();
    trace.cancel = clock.schedule(QUIET_MS, () => finish(id!));
    if (kind === "packet: ") {
      const packet = parsePacket(rest!);
      if (packet !== undefined) trace.packets.push(packet);
      return;
    }
    const [rule, verdict] = ruleAndVerdict(kind!.trim(), rest!.trim());
    const family: Family = (keyword === "ip6" || trace.packets.at(-1)?.source.includes(":")) ? "IPv6" : "IPv4";
    trace.steps.push({ family, table: table!, chain: chain!, rule, verdict, packet: trace.packets.at(-1) });
    if (verdict === "drop") finish(id!);
  };
  await runOrThrow(runner, { tool: "nft", args: ["monitor", "trace"], onLine, timeoutMs: FOREVER_MS });
}

function ruleAndVerdict(kind: string, rest: string): readonly [rule: string, verdict: string] {
  if (kind === "policy" || kind === "verdict") return [kind === "policy" ? "policy" : "", rest];
  const match = /^(.*) \(verdict ([^)]*)\)$/.exec(rest);
  return match ? [match[1]!, match[2]!] : [rest, "continue"];
}

/** Parses the fields of a packet; undefined for one without ports. */
function parsePacket(text: string): TracedPacket | undefined {
  const [, source, destination] = /\bip6? saddr (\S+) ip6? daddr (\S+)/.exec(text) ?? [];
  const [, protocol, sourcePort, destinationPort] = /\b(tcp|udp|sctp) sport (\d+) \1 dport (\d+)/.exec(text) ?? [];
  if (source === undefined || protocol === undefined) return undefined;
  const interfaceOf = (direction: "iif" | "oif") => new RegExp(`\\b${direction} "([^"]*)"`).exec(text)?.[1] ?? "";
  return {
    source: canonicalAddress(source) ?? source,
    sourcePort: Number(sourcePort),
    destination: canonicalAddress(destination!) ?? destination!,
    destinationPort: Number(destinationPort),
    protocol: protocol as Protocol,
    inInterface: interfaceOf("iif"),
    outInterface: interfaceOf("oif"),
  };
}

const OWN_TABLE = "sluice";
/** The start of the name of the table with the rule that starts the trace; the id of the process follows. */
const TRACE_TABLE = "sluice-trace-";

/** The owner of a rule that dropped or rejected a packet, and its reason. */
interface DropReason {
  /** `service`, `policy` and `source-range` are Sluice's; `other` belongs to another program. */
  readonly owner: "service" | "policy" | "source-range" | "other";
  readonly reason: string;
  /** `ip sluice services-check`. */
  readonly place: string;
  /** The rule as nft prints it. */
  readonly rule: string;
}

/**
 * The rules of Sluice that refuse packets, as `table chain rule`. Those of iptables mode are known by their chain: nft does not
 * print their comments.
 */
const REFUSALS: readonly (readonly [RegExp, DropReason["owner"], string])[] = [
  [
    /^sluice .* @refused |^sluice nodeport-refused-.* reject$|^\S+ KUBE-(EXTERNAL-SERVICES|SERVICES|NODEPORTS) .*\breject\b/,
    "service",
    "rejected: the service has no usable endpoint",
  ],
  [
    /^sluice .* @dropped |^sluice nodeport-refused-.* drop$|^\S+ KUBE-(EXTERNAL-SERVICES|SERVICES|NODEPORTS) .*\bdrop$/,
    "policy",
    "dropped: traffic policy Local, and this node has no usable endpoint",
  ],
  [
    /^sluice sources-|^\S+ KUBE-(PROXY-FIREWALL|FW)\b/,
    "source-range",
    "dropped: the client is not in the source ranges of the load balancer",
  ],
  [/^sluice .* @cluster-ips reject$/, "service", "rejected: no service has this port of the cluster IP"],
  [
    /^sluice filter-(forward|output) ct state \S+ ip6? daddr \S+ drop$/,
    "service",
    "dropped: no service has this address",
  ],
];

function dropReason({ steps }: Pick<Trace, "steps">): DropReason {
  const step = steps.at(-1)!;
  const { table, chain, rule } = step;
  const found = REFUSALS.find(([pattern]) => pattern.test(`${table} ${chain} ${rule}`));
  const [, owner, reason] = found ?? [/./, "other" as const, otherReason(step)];
  return { owner, reason, place: placeOf(step), rule };
}

function otherReason({ rule, table }: TraceStep): string {
  return `dropped by ${rule === "policy" ? "the policy of a chain" : "a rule"} of table ${table}: another program's`;
}

/** `ip sluice services-check`. */
function placeOf({ family, table, chain }: Pick<TraceStep, "family" | "table" | "chain">): string {
  return `${family === "IPv4" ? "ip" : "ip6"} ${table} ${chain}`;
}

/**
 * The steps of a trace that are shown: without the trace's own rule, the ends of chains, and jumps to chains of session affinity
 * that did not match the client.
 */
function shownSteps({ steps }: Pick<Trace, "steps">): readonly TraceStep[] {
  const shown = steps.filter(({ table, rule, verdict }) =>
    !table.startsWith(TRACE_TABLE) && rule !== "" && (rule !== "policy" || verdict === "drop")
  );
  return shown.filter(({ table, rule }, i) =>
    table !== OWN_TABLE || !rule.startsWith("jump affinity-") || rule === `jump ${shown[i + 1]?.chain}`
  );
}

/** The statement that translates the destination. */
const TRANSLATION = /\bdnat (?:ip6? )?to /;

/**
 * Explains a step in words; the text of the rule for a rule of another program.
 * @param service the service port of the destination, if it has one
 * @param next the packet at the next hook, which shows how a rule has changed it
 */
function stepText(step: TraceStep, service: ServicePortName | undefined, next: TracedPacket | undefined): string {
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
    [/ & \S+ \. .* vmap @restricted$/, "checks that its node port has usable endpoints"],
    [/ vmap @restricted$/, `is for a load balancer of ${service} with source ranges`],
    [/ @sources\S* return$/, "comes from an address in these ranges"],
    [/jump services-check$/, "checks that its service has usable endpoints"],
    [/goto nodeports-check$/, "checks that its node port has usable endpoints"],
    [/^ip6? daddr \S+ goto /, `is to an address at which ${service} has its node port`],
    [/ meta mark set meta mark \| /, "is marked, to be sent from this node's address"],
    [/^meta mark set meta mark & /, "loses the mark"],
    [/^meta mark & \S+ == 0x0+ return$|^meta mark 0x0+\/1 return$/, "is not marked: it keeps its source"],
    [/masquerade fully-random$/, "is sent from this node's address"],
    [/jump count-|^count-/, "is counted"],
    [/update @count-/, "is counted"],
    [/^jump affinity-/, "belongs to a client that has an endpoint"],
    [/\bgoto affinity-(?:\w+-)?new-/, "belongs to a client without an endpoint"],
    [/ update @clients /, "is remembered, so that this client stays with its endpoint"],
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

interface Drop extends DropReason, Pick<Flow, "atMs" | "protocol" | "client" | "frontend"> {
  readonly event: "drop";
  /** Undefined if no service has this destination. */
  readonly service: ServicePortName | undefined;
}

/** A drop in one line. */
export function dropLine({ atMs, client, frontend, protocol, service, reason, place, owner, rule }: Drop): string {
  const at = owner === "other" ? `${place}: ${rule}` : place;
  const of = service === undefined ? "" : ` (${service})`;
  return `${timeOfDay(atMs)}  drop    ${client} → ${frontend}/${protocol}${of}  ${reason}  [${at}]`;
}

/** The drop that a trace ends with. */
export function dropOf(trace: Trace, atMs: number, service: ServicePortName | undefined): Drop {
  const { first } = trace;
  return {
    event: "drop",
    atMs,
    service,
    protocol: first.protocol,
    client: joinHostPort(first.source, first.sourcePort),
    frontend: joinHostPort(first.destination, first.destinationPort),
    ...dropReason(trace),
  };
}

/** The path of a packet: a line for the packet, one for each rule, and one for its end. */
export function pathLines(trace: Trace, service: ServicePortName | undefined): readonly string[] {
  const { first, last, isDropped } = trace;
  const steps = shownSteps(trace);
  const width = Math.max(0, ...steps.map((step) => placeOf(step).length));
  const rows = steps.map((step, i) => {
    const next = steps.slice(i + 1).find(({ packet }) => packet !== step.packet)?.packet;
    return `  ${placeOf(step).padEnd(width)}  ${stepText(step, service, next)}`;
  });
  const from = first.inInterface === "" ? "sent by this node" : `arrived at ${first.inInterface}`;
  const source = joinHostPort(first.source, first.sourcePort);
  const destination = joinHostPort(first.destination, first.destinationPort);
  const to = joinHostPort(last.destination, last.destinationPort);
  const end = isDropped
    ? `It ended here: ${dropReason(trace).reason}.`
    : last.outInterface === ""
    ? `No rule dropped it; its destination is ${to}, on this node.`
    : `No rule dropped it; it left at ${last.outInterface} for ${to}.`;
  return [
    `${source} → ${destination}/${first.protocol}, ${from}`,
    ...rows,
    end,
  ];
}

/** The packets to trace in one family: statements of nft that match them. */
export interface TracedPackets {
  readonly family: Family;
  /** The elements of a set `traced` of destinations, each `address . protocol . port`; none if the match needs no set. */
  readonly destinations: readonly string[];
  readonly matches: readonly string[];
  /** The priority of the chains: a number, before which other rules are not traced. */
  readonly priority: number;
}

const TIMEOUT_MS = 10_000;
const ELEMENTS_PER_LINE = 500;

/**
 * Marks packets to be traced, in a table of its own that belongs to a long-running nft: the kernel deletes the table as
 * soon as that nft ends, even if this program is killed. Returns a function that ends it.
 * @throws if nft or the kernel refuses the table
 */
export async function markTraced(traced: readonly TracedPackets[], runner: Runner): Promise<() => void> {
  const conversation = runner.converse!({ tool: "nft", args: ["-i"] });
  let lines = 0;
  try {
    for (const line of traced.flatMap((each) => [...tableLines(each)])) {
      const end = `end ${++lines}`;
      // nft prints nothing on success. An invalid line, which it repeats in its error, marks the end of the answer.
      const answer = await conversation.ask(`${line}\n${end}\n`, end, TIMEOUT_MS);
      const error = /Error: (.*)/.exec(answer.slice(0, answer.lastIndexOf("Error: ")))?.[1];
      if (error !== undefined) throw new Error(error);
    }
  } catch (error) {
    conversation.close();
    throw new Error("nft cannot trace packets (Linux 5.12 or later is needed)", { cause: error });
  }
  return () => conversation.close();
}

function* tableLines({ family, destinations, matches, priority }: TracedPackets): Generator<string> {
  const ip = family === "IPv4" ? "ip" : "ip6", table = `${ip} ${TRACE_TABLE}${Deno.pid}`;
  yield `add table ${table} { flags owner; }`;
  if (destinations.length > 0) {
    yield `add set ${table} traced { typeof ${ip} daddr . meta l4proto . th dport; }`;
    for (let i = 0; i < destinations.length; i += ELEMENTS_PER_LINE) {
      yield `add element ${table} traced { ${destinations.slice(i, i + ELEMENTS_PER_LINE).join(", ")} }`;
    }
  }
  for (const hook of ["prerouting", "output"]) {
    yield `add chain ${table} ${hook} { type filter hook ${hook} priority ${priority}; policy accept; }`;
    for (const match of matches) yield `add rule ${table} ${hook} ${match} meta nftrace set 1`;
  }
}
