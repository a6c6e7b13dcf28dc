/** Third-party packages: which are pinned, which are in the bundle, and their licences. */

/** A package pinned by deno.lock. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** `sha512-` and the base64 digest of the tarball. */
  readonly integrity: string;
  /** Whether the package has an install script. */
  readonly hasInstallScript: boolean;
}

interface LockFile {
  readonly npm: Readonly<Record<string, { readonly integrity: string; readonly scripts?: boolean }>>;
}

/** Parses a deno.lock; sorted by name and version. */
export function lockedPackages(lock: string): readonly LockedPackage[] {
  const { npm } = JSON.parse(lock) as LockFile;
  const packages = new Map<string, LockedPackage>();
  for (const [key, { integrity, scripts = false }] of Object.entries(npm)) {
    // The key is `name@1.2.3_peer@4.5.6` for a package with peer dependencies.
    const [, name, version] = /^(@?[^@]+)@([^_]+)/.exec(key)!;
    packages.set(`${name}@${version}`, { name: name!, version: version!, integrity, hasInstallScript: scripts });
  }
  return [...packages.values()].sort((a, b) => compare(`${a.name}@${a.version}`, `${b.name}@${b.version}`));
}

/** A package with code in the bundle. */
export interface BundledPackage {
  readonly name: string;
  readonly version: string;
}

/** Returns the packages that the source maps of a bundle name, sorted. */
export function bundledPackages(maps: Iterable<string>): readonly BundledPackage[] {
  const found = new Map<string, BundledPackage>();
  for (const map of maps) {
    const { sources } = JSON.parse(map) as { readonly sources: readonly string[] };
    for (const source of sources) {
      const [, name, version] = /\/npm\/[^/]+\/((?:@[^/]+\/)?[^/@]+)\/([^/]+)\//.exec(source) ?? [];
      if (name !== undefined && version !== undefined) found.set(`${name}@${version}`, { name, version });
    }
  }
  return [...found.entries()].sort(([a], [b]) => compare(a, b)).map(([, one]) => one);
}

/** Compares by UTF-16 code unit, independent of the locale. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Returns the npm folders of Deno's cache, one per registry. */
export function cacheFolders(): readonly string[] {
  const env = (name: string) => Deno.env.get(name) || undefined;
  const cache = env("DENO_DIR") ?? `${env("XDG_CACHE_HOME") ?? `${env("HOME")}/.cache`}/deno`;
  return [...Deno.readDirSync(`${cache}/npm`)].map(({ name }) => `${cache}/npm/${name}`);
}

/** Returns the SPDX licence in a cached package.json; undefined if the package is not cached. */
export function licenceOf(
  { name, version }: Pick<LockedPackage, "name" | "version">,
  caches: readonly string[],
): string | undefined {
  for (const cache of caches) {
    try {
      const { license, licenses } = JSON.parse(Deno.readTextFileSync(`${cache}/${name}/${version}/package.json`));
      // Old packages declare an object or a list of objects.
      const declared = license ?? licenses?.[0];
      return typeof declared === "string" ? declared : declared?.type ?? "not declared";
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return undefined;
}
