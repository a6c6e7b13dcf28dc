import type { Protocol } from "../../core/model/mod.ts";
import { canonicalAddress } from "../../platform/mod.ts";

/** One direction of a connection. */
export interface Tuple {
  readonly source: string;
  readonly destination: string;
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** The bytes in this direction; undefined if the kernel does not count them, or the connection has not ended. */
  readonly bytes: number | undefined;
}

/** An event of the kernel's connection tracking. */
export interface ConntrackEvent {
  readonly kind: "new" | "update" | "destroy";
  /** In milliseconds since 1970. */
  readonly atMs: number;
  /** Identifies the connection while it is tracked. */
  readonly id: string;
  readonly protocol: Protocol;
  /** The state of a TCP or SCTP connection, as the kernel names it; empty if unknown. */
  readonly state: string;
  /** As the client sends. */
  readonly original: Tuple;
  /** As the endpoint answers. */
  readonly reply: Tuple;
}

/** The arguments of conntrack that print such events: of both families, with time and identity. */
export const CONNTRACK_ARGS: readonly string[] = [
  ...["-E", "-e", "NEW,UPDATES,DESTROY", "-o", "timestamp,extended,id"],
  // Room for some 20,000 events while this program is busy.
  ...["-b", "8388608"],
];

const KINDS = { NEW: "new", UPDATE: "update", DESTROY: "destroy" } as const;

const EVENT =
  /^\[(\d+\.\d+)\]\s+\[(NEW|UPDATE|DESTROY)\] ipv[46]\s+\d+ (tcp|udp|sctp)\s+\d+ (?:\d+ )?(?:([A-Z_\d]+) )?(src=.*)$/;

/** Parses a line of `conntrack -E`; undefined for other lines and protocols. */
export function parseConntrackEvent(line: string): ConntrackEvent | undefined {
  const match = EVENT.exec(line);
  if (!match) return undefined;
  const [, seconds, kind, protocol, state = "", fields] = match;
  const words = fields!.split(/\s+/);
  const values = (name: string) =>
    words.filter((word) => word.startsWith(`${name}=`)).map((word) => word.slice(name.length + 1));
  const [sources, destinations, sourcePorts, destinationPorts] = ["src", "dst", "sport", "dport"].map(values);
  const counted = values("bytes"), [id] = values("id");
  if (id === undefined || sources!.length < 2 || sourcePorts!.length < 2) return undefined;
  const tuple = (i: 0 | 1): Tuple => ({
    source: canonicalAddress(sources![i]!) ?? sources![i]!,
    destination: canonicalAddress(destinations![i]!) ?? destinations![i]!,
    sourcePort: Number(sourcePorts![i]),
    destinationPort: Number(destinationPorts![i]),
    bytes: counted[i] === undefined ? undefined : Number(counted[i]),
  });
  return {
    kind: KINDS[kind as keyof typeof KINDS],
    atMs: Number(seconds) * 1000,
    id,
    protocol: protocol as Protocol,
    state,
    original: tuple(0),
    reply: tuple(1),
  };
}
