/** The packages that the lock file pins, and what they say of themselves in Deno's cache. */

/** A package as the lock file pins it. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** `sha512-…` in base64, of what the registry delivers. */
  readonly integrity: string;
  /** It would run a script of its own when it is installed. */
  readonly hasInstallScript: boolean;
}

interface LockFile {
  readonly npm: Readonly<Record<string, { readonly integrity: string; readonly scripts?: boolean }>>;
}

/** The packages of the text of a deno.lock, in order of name and version. */
export function lockedPackages(lock: string): readonly LockedPackage[] {
  const { npm } = JSON.parse(lock) as LockFile;
  const packages = new Map<string, LockedPackage>();
  for (const [key, { integrity, scripts = false }] of Object.entries(npm)) {
    // `name@1.2.3_peer@4.5.6` where a package depends on which peer it meets.
    const [, name, version] = /^(@?[^@]+)@([^_]+)/.exec(key)!;
    packages.set(`${name}@${version}`, { name: name!, version: version!, integrity, hasInstallScript: scripts });
  }
  return [...packages.values()].sort((a, b) => compare(`${a.name}@${a.version}`, `${b.name}@${b.version}`));
}

/** By code points, the same on every machine. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The folders of Deno's cache that hold packages, one for each registry. */
export function cacheFolders(): readonly string[] {
  const env = (name: string) => Deno.env.get(name) || undefined;
  const cache = env("DENO_DIR") ?? `${env("XDG_CACHE_HOME") ?? `${env("HOME")}/.cache`}/deno`;
  return [...Deno.readDirSync(`${cache}/npm`)].map(({ name }) => `${cache}/npm/${name}`);
}

/** The licence that a package declares (SPDX), from its package.json; undefined where the cache does not hold it. */
export function licenceOf(
  { name, version }: Pick<LockedPackage, "name" | "version">,
  caches: readonly string[],
): string | undefined {
  for (const cache of caches) {
    try {
      const { license, licenses } = JSON.parse(Deno.readTextFileSync(`${cache}/${name}/${version}/package.json`));
      // Old packages have an object, or a list of them.
      const declared = license ?? licenses?.[0];
      return typeof declared === "string" ? declared : declared?.type ?? "not declared";
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return undefined;
}
