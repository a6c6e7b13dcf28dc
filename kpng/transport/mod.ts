/**
 * gRPC's framing over HTTP/2, and the checks on hostile or silent peers.
 *
 *   http2.ts  HTTP/2's error codes, headers of frames, and checks on them
 *   peers.ts  detects dead peers, and limits the events of hostile ones
 *   grpc.ts   gRPC's framing of messages, and status codes
 *
 * In: bytes of a peer. Out: messages. May touch: nothing.
 */
export * from "./grpc.ts";
export * from "./http2.ts";
export { createQuota, LIVENESS, type LivenessLimits, silenceText, watchLiveness } from "./peers.ts";
