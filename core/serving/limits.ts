import { LIVENESS, type LivenessLimits } from "../wire/liveness.ts";

/** What one server bears, so that no client can stop or bloat it. */
export interface Limits extends LivenessLimits {
  /** Watching streams in all. */
  readonly streams: number;
  /** Streams of one connection. */
  readonly streamsPerConnection: number;
  /** Connections in all. */
  readonly connections: number;
  /** Watchers that are told much at once, as those are who come or come back: each of them has some megabytes on its way. */
  readonly transfers: number;
  /** The bytes of one request. */
  readonly requestBytes: number;
  /** Requests of one stream that wait to be answered. */
  readonly requestsWaiting: number;
  /** Streams that one connection may open in `windowMs`, those that are closed at once among them. */
  readonly streamsPerWindow: number;
  readonly windowMs: number;
  /** How long a stream may be without its first request, and a connection without a stream. */
  readonly idleMs: number;
  /** How long a reader may take no bytes while there are some for it. */
  readonly stallMs: number;
}

/** Enough for a cluster of 7,500 nodes at one relay, and no more. */
export const LIMITS: Limits = {
  streams: 10_000,
  streamsPerConnection: 16,
  connections: 12_000,
  transfers: 4,
  requestBytes: 4096,
  requestsWaiting: 16,
  streamsPerWindow: 100,
  windowMs: 10_000,
  idleMs: 30_000,
  stallMs: 60_000,
  ...LIVENESS,
};
