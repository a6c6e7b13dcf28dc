import { compare } from "./packages.ts";

/** A package of which something is in the bundle. */
export interface BundledPackage {
  readonly name: string;
  readonly version: string;
}

/** The packages that the source maps of a bundle name, which is those that something was taken from. */
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
