const encoder = new TextEncoder();

/** Writes to standard error synchronously, so that nothing is lost when the process exits. */
export function writeToStderr(text: string): void {
  writeAll(Deno.stderr, text);
}

/** Writes to standard output synchronously. Output to a closed pipe is discarded. */
export function writeToStdout(text: string): void {
  writeAll(Deno.stdout, text);
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  const bytes = encoder.encode(text);
  try {
    for (let written = 0; written < bytes.length;) written += stream.writeSync(bytes.subarray(written));
  } catch {
    // A write error (closed pipe, full disk) must not stop the proxy.
  }
}
