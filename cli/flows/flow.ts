import type { Protocol, ServicePortName } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { ConntrackEvent } from "./conntrack_events.ts";

/**
 * An event of a connection to a service:
 * - `begin`: its first packet was sent to the endpoint;
 * - `closed`: TCP has ended; the kernel remembers the connection for up to two minutes;
 * - `end`: the kernel has forgotten it, and its bytes are known.
 */
export interface Flow {
  readonly event: "begin" | "closed" | "end";
  /** In milliseconds since 1970. */
  readonly atMs: number;
  readonly service: ServicePortName;
  readonly protocol: Protocol;
  /** `address:port` of the client, of the frontend, and of the endpoint. */
  readonly client: string;
  readonly frontend: string;
  readonly endpoint: string;
  /** The state of a TCP or SCTP connection: the last one, if it has ended. */
  readonly state: string;
  /** Bytes to the endpoint and back; absent if the kernel does not count them (`nf_conntrack_acct`), or not yet. */
  readonly bytesSent?: number;
  readonly bytesReceived?: number;
  /** The time since the begin; absent if that was not seen. */
  readonly durationMs?: number;
}

/** Turns events of connection tracking into those of connections to services. */
export interface FlowTracker {
  /** The event of a connection; undefined for one that nothing shows, and for connections to something else. */
  note(event: ConntrackEvent): Flow | undefined;
}

/** Finds the service port of a frontend. */
export type FindService = (address: string, protocol: Protocol, port: number) => ServicePortName | undefined;

/** The states of a TCP connection that has ended. */
const CLOSED: ReadonlySet<string> = new Set(["TIME_WAIT", "CLOSE"]);

/** The most connections whose begin is remembered. */
const MOST_OPEN = 200_000;

/** A tracker that has seen no connection. */
export function createFlowTracker(findService: FindService): FlowTracker {
  const open = new Map<string, { readonly beganMs: number; state: string }>();
  return {
    note({ kind, atMs, id, protocol, state, original, reply }) {
      // A connection whose destination is not translated goes to no service.
      const isTranslated = original.destination !== reply.source || original.destinationPort !== reply.sourcePort;
      const service = isTranslated ? findService(original.destination, protocol, original.destinationPort) : undefined;
      if (service === undefined) return undefined;
      const known = open.get(id);
      if (kind === "new" && open.size < MOST_OPEN) open.set(id, { beganMs: atMs, state });
      if (known !== undefined && kind === "update") known.state = state;
      if (kind === "destroy") open.delete(id);
      if (kind === "update" && !CLOSED.has(state)) return undefined;
      return {
        event: kind === "new" ? "begin" : kind === "update" ? "closed" : "end",
        atMs,
        service,
        protocol,
        client: joinHostPort(original.source, original.sourcePort),
        frontend: joinHostPort(original.destination, original.destinationPort),
        endpoint: joinHostPort(reply.source, reply.sourcePort),
        state: state || (known?.state ?? ""),
        ...(original.bytes === undefined ? {} : { bytesSent: original.bytes }),
        ...(reply.bytes === undefined ? {} : { bytesReceived: reply.bytes }),
        ...(known === undefined ? {} : { durationMs: Math.round(atMs - known.beganMs) }),
      };
    },
  };
}
