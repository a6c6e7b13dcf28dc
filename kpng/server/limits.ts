import { LIVENESS, type LivenessLimits } from "../transport/mod.ts";

/** The limits of a server, so that no client can exhaust it. */
export interface Limits extends LivenessLimits {
  /** The total number of watching streams. */
  readonly streams: number;
  /** The calls of health checks at the same time. */
  readonly serviceCalls: number;
  /** The streams of one connection. */
  readonly streamsPerConnection: number;
  /** The total number of connections, including those without a handshake. */
  readonly connections: number;
  /** The connections from one IP address; all clients of a unix socket share one. */
  readonly connectionsPerAddress: number;
  /** How long a connection may take for its TLS handshake, and then for its first SETTINGS frame. */
  readonly handshakeMs: number;
  /** The large answers, such as full snapshots, in transfer at the same time; each has some megabytes in flight. */
  readonly transfers: number;
  /** The bytes in the socket of one connection above which nothing more is written. */
  readonly unreadBytesPerConnection: number;
  /**
   * The maximum number of bytes that wait for all clients; above it, the connection that has not read for longest is closed.
   */
  readonly unreadBytes: number;
  /** The size of a request in bytes. */
  readonly requestBytes: number;
  /** The unanswered requests of one stream. */
  readonly requestsWaiting: number;
  /** The size of a call's headers as counted by HTTP/2, which adds 32 bytes to each. */
  readonly headerBytes: number;
  /** The number of headers of a call. */
  readonly headers: number;
  /** The streams that one connection may open in `windowMs`. */
  readonly streamsPerWindow: number;
  /** The streams of one connection that may be reset by either side in `windowMs` (CVE-2023-44487). */
  readonly resetsPerWindow: number;
  /**
   * The PING and SETTINGS frames that one connection may send in `windowMs`. grpc-go sends a PING per round trip while it
   * receives.
   */
  readonly controlFramesPerWindow: number;
  /** The frames that one connection may send in `windowMs`; a reader of 16 kB frames sends two for each. */
  readonly framesPerWindow: number;
  readonly windowMs: number;
  /** How long a stream may be without a request, and a connection without a stream. */
  readonly idleMs: number;
  /** How long a reader may leave available data unread. */
  readonly stallMs: number;
  /** How long a closed connection may take to receive the reason. */
  readonly lingerMs: number;
}

/** Limits for a cluster of 7,500 nodes on one relay. */
export const LIMITS: Limits = {
  streams: 10_000,
  serviceCalls: 1000,
  streamsPerConnection: 16,
  connections: 12_000,
  connectionsPerAddress: 512,
  handshakeMs: 10_000,
  transfers: 4,
  unreadBytesPerConnection: 64 * 1024,
  unreadBytes: 64 * 1024 * 1024,
  requestBytes: 4096,
  requestsWaiting: 16,
  headerBytes: 8192,
  headers: 32,
  streamsPerWindow: 100,
  resetsPerWindow: 20,
  controlFramesPerWindow: 10_000,
  framesPerWindow: 100_000,
  windowMs: 10_000,
  idleMs: 30_000,
  stallMs: 60_000,
  lingerMs: 1000,
  ...LIVENESS,
};
