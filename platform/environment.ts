/** Where programs are looked for where the environment does not say. */
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The PATH of this process: folders, with colons in between. Needs the right to read the environment. */
export function searchPath(): string {
  return Deno.env.get("PATH") || DEFAULT_PATH;
}
