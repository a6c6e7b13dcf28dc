import type { Family, Protocol } from "../../core/model/mod.ts";
import { canonicalAddress, type Clock } from "../../platform/mod.ts";

/** A packet at one hook. */
export interface TracedPacket {
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
export interface TraceStep {
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
  /** Whether a rule has dropped or rejected it. */
  readonly isDropped: boolean;
}

/** Collects the lines of `nft monitor trace` to traces. */
export interface TraceCollector {
  note(line: string): void;
}

/** Options of `collectTraces`. */
export interface TraceOptions {
  readonly clock: Clock;
  readonly onTrace: (trace: Trace) => void;
}

/** nft prints no end of a trace: it is over when nothing has followed for this time. */
const QUIET_MS = 300;
/** The most packets that are traced at the same time. */
const MOST_TRACES = 10_000;

const LINE = /^trace id (\w+) (ip6?|inet) (\S+) (\S+) (packet: |rule |unknown rule |verdict |policy )(.*)$/;

interface Collected {
  readonly steps: TraceStep[];
  readonly packets: TracedPacket[];
  cancel: () => void;
}

/** Collects traces; `onTrace` receives each when its packet is dropped, or when nothing more follows. */
export function collectTraces({ clock, onTrace }: TraceOptions): TraceCollector {
  const collected = new Map<string, Collected>();
  const finish = (id: string) => {
    const { steps, packets, cancel } = collected.get(id)!;
    cancel();
    collected.delete(id);
    const [first] = packets, last = packets.at(-1);
    if (first === undefined || last === undefined) return;
    onTrace({ steps, first, last, isDropped: steps.at(-1)?.verdict === "drop" });
  };
  return {
    note(line) {
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
    },
  };
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
