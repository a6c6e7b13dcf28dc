const encoder = new TextEncoder();

/** Writes to standard error at once, so that nothing is lost when the process ends. */
export function writeToStderr(text: string): void {
  writeAll(Deno.stderr, text);
}

/** Writes to standard output at once. Where nobody reads it any more, it is lost silently, as in any pipe. */
export function writeToStdout(text: string): void {
  writeAll(Deno.stdout, text);
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  const bytes = encoder.encode(text);
  try {
    for (let written = 0; written < bytes.length;) written += stream.writeSync(bytes.subarray(written));
  } catch {
    // A closed stream (a pager that ended, a full disk) must not end the proxy.
  }
}
