import { LIVENESS, type LivenessLimits } from "../transport/mod.ts";

/** Bounds of one server, so that no client can stop or bloat it. */
export interface Limits extends LivenessLimits {
  /** Watching streams in all. */
  readonly streams: number;
  /** Streams of one connection. */
  readonly streamsPerConnection: number;
  /** Connections in all, those without a handshake among them. */
  readonly connections: number;
  /** Connections from one IP address; the clients of a unix socket have one address together. */
  readonly connectionsPerAddress: number;
  /** How long a connection may take for its TLS handshake, and then for its first SETTINGS frame. */
  readonly handshakeMs: number;
  /** Watchers that are told much at once, as those are who come or come back: each of them has some megabytes on its way. */
  readonly transfers: number;
  /** The bytes of one request. */
  readonly requestBytes: number;
  /** Requests of one stream that wait to be answered. */
  readonly requestsWaiting: number;
  /** The bytes of a call's headers, as HTTP/2 counts them: 32 more for each. */
  readonly headerBytes: number;
  /** The headers of a call. */
  readonly headers: number;
  /** Streams that one connection may open in `windowMs`, those that are closed at once among them. */
  readonly streamsPerWindow: number;
  /** Streams of one connection that may end with an error in `windowMs`, whichever side resets them (CVE-2023-44487). */
  readonly resetsPerWindow: number;
  /**
   * PING and SETTINGS frames that one connection may send in `windowMs`. grpc-go measures a connection with a PING each
   * round trip while it receives.
   */
  readonly controlFramesPerWindow: number;
  /** Frames of any kind that one connection may send in `windowMs`; a reader of 16 kB a frame sends two for each. */
  readonly framesPerWindow: number;
  readonly windowMs: number;
  /** How long a stream may be without its first request, and a connection without a stream. */
  readonly idleMs: number;
  /** How long a reader may take no bytes while there are some for it. */
  readonly stallMs: number;
  /** How long a connection that the server closes may take to receive why. */
  readonly lingerMs: number;
}

/** Enough for a cluster of 7,500 nodes at one relay, and no more. */
export const LIMITS: Limits = {
  streams: 10_000,
  streamsPerConnection: 16,
  connections: 12_000,
  connectionsPerAddress: 512,
  handshakeMs: 10_000,
  transfers: 4,
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
