import type { ClockAndLogger } from "../../platform/mod.ts";
import type { TlsFiles, WireAddress } from "../address/mod.ts";
import type { Tally } from "./metrics.ts";
import { LIVENESS } from "../transport/mod.ts";

/** The names that a client certificate must have, in addition to being signed by the server's CA. Plain data. */
export interface ClientRule {
  /** One of these common names. */
  readonly names: readonly string[];
  /** This organization; any if undefined. */
  readonly organization: string | undefined;
}

/** The settings of a server, the same in each of its isolates. Plain data. */
export interface ServerSettings {
  readonly address: WireAddress;
  /** Without it, nothing is encrypted and every client that can connect may watch. */
  readonly tls: TlsFiles | undefined;
  /** The rule for client certificates; undefined admits all that the CA has signed. */
  readonly clients: ClientRule | undefined;
  readonly limits: Limits;
}

/** The state that the parts of a server in one isolate share. */
export interface ServerContext extends ClockAndLogger {
  readonly limits: Limits;
  /** Counts the connections and calls of all isolates, which the limits apply to. */
  readonly tally: Tally;
}

/** The limits of a server, so that no client can exhaust it: for a cluster of 7,500 nodes on one relay. */
export const LIMITS = {
  streams: 10_000,
  /** The calls of health checks at the same time. */
  serviceCalls: 1000,
  streamsPerConnection: 16,
  /** The total number of connections, including those without a handshake. */
  connections: 12_000,
  /** The connections from one IP address; all clients of a unix socket share one. */
  connectionsPerAddress: 512,
  /** The maximum time of a connection's TLS handshake, and then until its first SETTINGS frame. */
  handshakeMs: 10_000,
  /** The large answers, such as full snapshots, in transfer at the same time; each has some megabytes in flight. */
  transfers: 4,
  /** The bytes in the socket of one connection above which nothing more is written. */
  unreadBytesPerConnection: 64 * 1024,
  /** The most bytes that wait for all clients; above it, the connection that has not read for longest is closed. */
  unreadBytes: 64 * 1024 * 1024,
  /** The size of a request in bytes. */
  requestBytes: 4096,
  /** The unanswered requests of one stream. */
  requestsWaiting: 16,
  /** The size of a call's headers as counted by HTTP/2, which adds 32 bytes to each. */
  headerBytes: 8192,
  headers: 32,
  /** The streams that one connection may open in `windowMs`. */
  streamsPerWindow: 100,
  /** The streams of one connection that may be reset by either side in `windowMs` (CVE-2023-44487). */
  resetsPerWindow: 20,
  /**
   * The PING and SETTINGS frames that one connection may send in `windowMs`. grpc-go sends a PING per round trip while it
   * receives.
   */
  controlFramesPerWindow: 10_000,
  /** The frames that one connection may send in `windowMs`; a reader of 16 kB frames sends two for each. */
  framesPerWindow: 100_000,
  windowMs: 10_000,
  /** The maximum time of a stream without a request, and of a connection without a stream. */
  idleMs: 30_000,
  /** The maximum time that a reader leaves available data unread. */
  stallMs: 60_000,
  /** The time that a closed connection has to receive the reason. */
  lingerMs: 1000,
  ...LIVENESS,
};

/** The limits of one server; see `LIMITS`. */
export type Limits = Readonly<typeof LIMITS>;
