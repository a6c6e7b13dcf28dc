/**
 * gRPC's frames over HTTP/2, and the guards that keep a peer from using too much or staying silent.
 */
export { readWireAddress, type WireAddress, wireAddressText } from "./address.ts";
export { createFrameReader, framesOf } from "./frames.ts";
export {
  createClientFrameCheck,
  createHttp2FrameReader,
  FRAME,
  isPingAck,
  PREFACE_BYTES,
  wantsAnswer,
} from "./http2_frames.ts";
export { LIVENESS, type LivenessLimits, silenceText, watchLiveness } from "./liveness.ts";
export { createQuota } from "./quota.ts";
export { STATUS, statusText } from "./status.ts";
export { readTlsFiles, type TlsFiles, type TlsPaths } from "./tls.ts";
