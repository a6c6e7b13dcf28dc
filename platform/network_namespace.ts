/**
 * A name of the network namespace that this process is in, to compare with another's on the same machine; undefined where
 * the runtime does not let it be read.
 */
export function networkNamespace(): string | undefined {
  try {
    return String(Deno.statSync("/proc/self/ns/net").ino);
  } catch {
    return undefined;
  }
}
