import type {
  Family,
  FamilyDelta,
  PortRange,
  Protocol,
  RelayPorts,
  ServicePortKey,
  SyncProblem,
  TrafficReading,
} from "../core/model/mod.ts";
import type { ClockAndLogger } from "../platform/mod.ts";
import type { RelayCounts } from "./counts.ts";
import type { RelayNetwork } from "./network.ts";

/** The state of the relay after a delta. */
export interface RelayUpdate {
  /** The ports of every service port that the relay serves: a live view, not a copy. */
  readonly ports: ReadonlyMap<ServicePortKey, RelayPorts>;
  /** Every service port that has no listener, with the reason; the others are served. `apply` retries them. */
  readonly problems: readonly SyncProblem[];
}

/** The data path of one family: accepts connections and datagrams, and carries them to endpoints. */
export interface Relay {
  /**
   * Applies a delta; the first one is a whole state. Resolves when its listeners are open. New connections use the new
   * endpoints at once; existing ones stay. Calls run one after the other.
   */
  apply(delta: FamilyDelta): Promise<RelayUpdate>;
  /** The metrics since the start. */
  counts(): RelayCounts;
  /** Returns the connections and bytes of payload since the last call; undefined if none are counted. */
  takeTraffic(): TrafficReading | undefined;
  /** Closes the listeners, waits at most 5 s for open connections, then resets them. */
  stop(): Promise<void>;
}

/** The bounds of a relay: sizes, and times in milliseconds. `defaultRelayLimits` returns them for a limit of files. */
export interface RelayLimits {
  /** Open TCP connections of clients; each takes two files. */
  readonly connections: number;
  /** UDP flows; each takes one file. The flow that is idle for longest makes room for a new one. */
  readonly udpFlows: number;
  /** The idle time after which a UDP flow with only one datagram and its answer is closed. */
  readonly udpAnsweredIdleMs: number;
  /** The time after which any other idle UDP flow is closed, unless it is a stream. */
  readonly udpIdleMs: number;
  /** The time after which an idle UDP stream is closed: a flow that was answered and lasts longer than 2 s. */
  readonly udpStreamIdleMs: number;
}

/**
 * The addresses and ports that a relay listens on:
 * - `redirect`: a free port of the wildcard address for each list of endpoints, for rules that redirect to it. UDP listens
 *   on `udpAddress` alone: a reply leaves with that source, so the rules must send datagrams to that address and port
 *   (DNAT; REDIRECT picks an address that depends on the incoming interface, and conntrack would not recognize the reply).
 * - `localhost-node-ports`: the node port of each service port at these loopback addresses. Connections go to
 *   `clusterEndpoints`, as all traffic of the node itself.
 */
export type RelayPlacement =
  | { readonly by: "redirect"; readonly udpAddress: string }
  | { readonly by: "localhost-node-ports"; readonly addresses: readonly string[] };

/** Inputs of `createRelay`. */
export interface RelayOptions extends ClockAndLogger {
  readonly family: Family;
  readonly placement: RelayPlacement;
  /** The ports of a relay with placement `redirect`; any free one by default. */
  readonly ports?: PortRange | undefined;
  readonly limits: RelayLimits;
  /** The sockets of the system by default. */
  readonly network?: RelayNetwork;
  /** Whether the relay may connect to an endpoint (`address:port`); it may to all by default. Asked for each attempt. */
  readonly mayConnect?: (endpoint: string, protocol: Protocol) => boolean;
  /** Returns a number in [0, 1), Math.random by default. */
  readonly random?: () => number;
}

/** Files that the relay leaves to the rest of the process: API connections, servers, tools. */
const RESERVED_FILES = 512;
/** The relays that share the other files: one of each family. */
const RELAYS = 2;
/** A connection of a client and one to its endpoint. */
const FILES_PER_CONNECTION = 2;

/**
 * Returns the default limits for a process that may open `files` files. Of those of a relay, half are for connections, an
 * eighth for UDP flows, and the rest for listeners.
 *
 * kube-proxy's userspace mode closed UDP flows after 250 ms without traffic (`--udp-timeout`), which loses slow answers. A
 * resolver waits 5 s for an answer, so the timeout of a question is 10 s, and one second once it is answered. Streams have the
 * timeout of the kernel's connection tracking (nf_conntrack_udp_timeout_stream).
 */
export function defaultRelayLimits(files: number): RelayLimits {
  const own = Math.max(64, Math.floor((files - RESERVED_FILES) / RELAYS));
  return {
    connections: Math.floor(own / 2 / FILES_PER_CONNECTION),
    udpFlows: Math.floor(own / 8),
    udpAnsweredIdleMs: 1000,
    udpIdleMs: 10_000,
    udpStreamIdleMs: 120_000,
  };
}
