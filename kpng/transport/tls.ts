import { errorText } from "../../platform/mod.ts";

/** The paths of PEM files, as the flags name them. */
export interface TlsPaths {
  /** Whose certificates the other side's must be signed by. */
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
}

/** PEM texts. */
export interface TlsFiles {
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
}

/**
 * Reads the files; undefined where none is named, which means no TLS. `flags` is how the flags' names begin, for errors
 * (`--listen-tls`). Throws an Error that says which file is missing.
 */
export function readTlsFiles(paths: TlsPaths, flags: string): TlsFiles | undefined {
  if (!paths.ca && !paths.crt && !paths.key) return undefined;
  if (!paths.crt !== !paths.key) {
    throw new Error(
      `${flags}-crt and ${flags}-key belong together: ${paths.crt ? "the key" : "the certificate"} is missing`,
    );
  }
  const read = (name: keyof TlsPaths) => {
    const path = paths[name];
    if (!path) return undefined;
    try {
      return Deno.readTextFileSync(path);
    } catch (error) {
      throw new Error(`${flags}-${name}: cannot read ${path}: ${errorText(error)}`);
    }
  };
  return { ca: read("ca"), crt: read("crt"), key: read("key") };
}
