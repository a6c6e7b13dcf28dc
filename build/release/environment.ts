/** The environment that release.sh passes to its scripts. */
import { VERSION } from "../../platform/build.ts";

/** The release that is being built. */
export interface Release {
  readonly version: string;
  /** Hash of the commit. */
  readonly commit: string;
  /** Time of all files, in seconds since 1970. */
  readonly epoch: number;
  /** Address of the repository, `https://…`. */
  readonly repository: string;
}

/** Reads the release from the environment. Throws if a variable is missing. */
export function readRelease(): Release {
  return {
    version: VERSION,
    commit: variable("COMMIT"),
    epoch: Number(variable("SOURCE_DATE_EPOCH")),
    repository: variable("REPOSITORY_URL"),
  };
}

/** Returns a variable of the environment. Throws if it is missing or empty. */
export function variable(name: string): string {
  const value = Deno.env.get(name);
  if (!value) throw new Error(`the environment variable ${name} is not set (release.sh sets it)`);
  return value;
}

/** Returns the SHA-256 of bytes in hex. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}
