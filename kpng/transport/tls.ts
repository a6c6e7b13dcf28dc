import { errorText } from "../../platform/mod.ts";

/** The paths of PEM files, from flags. */
export interface TlsPaths {
  /** The CA that must have signed the peer's certificate. */
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
}

/** The contents of PEM files. */
export interface TlsFiles {
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
  /** The name that the server's certificate must have; its host by default. For clients. */
  readonly serverName?: string;
}

/**
 * Reads the files; undefined without any, which means no TLS. `flags` is the prefix of the flags (`--listen-tls`), for errors.
 * Throws an Error that names the missing file.
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
