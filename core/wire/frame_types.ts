/** The types of HTTP/2 frames that are counted, RFC 9113 section 6. */
export const FRAME = { headers: 1, settings: 4, ping: 6 } as const;

/** The bytes with which a client begins, before its first frame; a server begins with a frame. */
export const PREFACE_BYTES = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".length;
const HEADER_BYTES = 9;

/**
 * Reads the type of each frame out of what an HTTP/2 peer sends after so many bytes, in pieces of any size; whether the bytes
 * are HTTP/2 at all is left to whoever reads the frames.
 */
export function createFrameTypeReader(
  bytesBefore: number,
  onFrame: (type: number) => void,
): (bytes: Uint8Array) => void {
  const header = new Uint8Array(HEADER_BYTES);
  let skip = bytesBefore;
  let have = 0;
  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      if (skip > 0) {
        const skipped = Math.min(skip, bytes.length - at);
        skip -= skipped;
        at += skipped;
        continue;
      }
      header[have++] = bytes[at++]!;
      if (have < HEADER_BYTES) continue;
      have = 0;
      skip = (header[0]! << 16) | (header[1]! << 8) | header[2]!;
      onFrame(header[3]!);
    }
  };
}

/** Whether each frame of that type makes its receiver send one. */
export function wantsAnswer(type: number): boolean {
  return type === FRAME.ping || type === FRAME.settings;
}
