/**
 * gRPC's framing over HTTP/2, addresses and TLS files, and the checks on hostile or silent peers.
 *
 *   address.ts       addresses of gRPC servers
 *   frames.ts        gRPC's framing of messages
 *   http2_errors.ts  HTTP/2's error codes
 *   http2_frames.ts  headers of HTTP/2 frames, and checks on them
 *   liveness.ts      detects dead peers
 *   quota.ts         limits the events per time window
 *   status.ts        gRPC status codes
 *   tls.ts           PEM files
 *
 * In: bytes of a peer. Out: messages. May touch: PEM files.
 */
export { readWireAddress, type WireAddress, wireAddressText } from "./address.ts";
export { createFrameReader, DEFAULT_MESSAGE_BYTES, framesOf, sharedFramesOf } from "./frames.ts";
export { ERROR_CODE, http2ErrorText, readGoaway } from "./http2_errors.ts";
export {
  createClientFrameCheck,
  createHttp2FrameReader,
  FRAME,
  isPingAck,
  needsAnswer,
  PREFACE_BYTES,
} from "./http2_frames.ts";
export { LIVENESS, type LivenessLimits, silenceText, watchLiveness } from "./liveness.ts";
export { createQuota } from "./quota.ts";
export { decodeStatusMessage, encodeStatusMessage, httpStatusText, STATUS, StatusError, statusText } from "./status.ts";
export { readTlsFiles, type TlsFiles, type TlsPaths } from "./tls.ts";
