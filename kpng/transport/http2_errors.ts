/** HTTP/2's error codes that are sent here (RFC 9113 section 7). */
export const ERROR_CODE = { noError: 0, protocolError: 1, cancel: 8, enhanceYourCalm: 11 } as const;

const NAMES = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
  "CONNECT_ERROR",
  "ENHANCE_YOUR_CALM",
  "INADEQUATE_SECURITY",
  "HTTP_1_1_REQUIRED",
];

/** The name of an error code, for a log line: `ENHANCE_YOUR_CALM`. */
export function http2ErrorText(code: number): string {
  return NAMES[code] ?? `error ${code}`;
}

/** The content of a GOAWAY frame. */
export interface Goaway {
  readonly code: number;
  /** The sender's explanation; often empty. */
  readonly debug: string;
}

/** Reads the payload of a GOAWAY frame; undefined for one that is too short. */
export function readGoaway(payload: Uint8Array): Goaway | undefined {
  if (payload.length < 8) return undefined;
  const code = new DataView(payload.buffer, payload.byteOffset).getUint32(4);
  // The explanation is another program's text and goes to a log line.
  const debug = new TextDecoder().decode(payload.subarray(8)).replace(/[^\x20-\x7e]/g, "?");
  return { code, debug };
}
