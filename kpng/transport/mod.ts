/**
 * gRPC's framing over HTTP/2, addresses and TLS files, and the checks on hostile or silent peers.
 *
 * In: bytes of a peer. Out: messages. May touch: PEM files.
 */
export { readWireAddress, type WireAddress, wireAddressText } from "./address.ts";
export { createFrameReader, framesOf } from "./frames.ts";
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
export { STATUS, statusText } from "./status.ts";
export { readTlsFiles, type TlsFiles, type TlsPaths } from "./tls.ts";
