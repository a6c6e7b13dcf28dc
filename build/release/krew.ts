/**
 * Writes the manifest with which krew installs `kubectl sluice` from the tarballs of a release
 * (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest). Called by release.sh.
 *
 *   krew.ts FOLDER MANIFEST     # FOLDER/sluice-VERSION-linux-amd64.tar.gz, …
 */
import { stringify } from "yaml";
import { readRelease, type Release, sha256 } from "./environment.ts";

/** A tarball, and what krew takes from it. */
export interface Platform {
  readonly selector: { readonly matchLabels: { readonly os: string; readonly arch: string } };
  readonly uri: string;
  readonly sha256: string;
  /** Patterns of paths in the tarball, and folders of the plugin. */
  readonly files: readonly { readonly from: string; readonly to: string }[];
  readonly bin: string;
}

/** A manifest, with krew's names. */
export interface Plugin {
  readonly apiVersion: string;
  readonly kind: "Plugin";
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly version: string;
    readonly homepage: string;
    readonly shortDescription: string;
    readonly description: string;
    readonly caveats: string;
    readonly platforms: readonly Platform[];
  };
}

/** Returns the name of the tarball for an architecture. */
export function tarballOf(version: string, architecture: string): string {
  return `sluice-${version}-linux-${architecture}.tar.gz`;
}

/** Returns the manifest for tarballs with these SHA-256 sums, by architecture. */
export function manifest(
  { version, repository }: Pick<Release, "version" | "repository">,
  checksums: Readonly<Record<string, string>>,
): Plugin {
  return {
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "sluice" },
    spec: {
      version: `v${version}`,
      homepage: repository,
      shortDescription: "Ask the service proxy Sluice on each node",
      description:
        "Shows whether Sluice has all services in effect on each node, where a node sends connections to a " +
        "service, and how its kernel differs. It runs `kubectl exec` in Sluice's pods, with your rights.",
      caveats: "Needs glibc 2.27 or later.",
      platforms: Object.entries(checksums).map(([arch, sha256]) => ({
        selector: { matchLabels: { os: "linux", arch } },
        uri: `${repository}/releases/download/v${version}/${tarballOf(version, arch)}`,
        sha256,
        files: ["sluice", "LICENSE", "NOTICE"].map((name) => ({ from: `*/${name}`, to: "." })),
        bin: "sluice",
      })),
    },
  };
}

if (import.meta.main) {
  const [folder, path] = Deno.args;
  if (folder === undefined || path === undefined) throw new Error("usage: krew.ts FOLDER MANIFEST");
  const release = readRelease();
  const checksums: Record<string, string> = {};
  for (const architecture of ["amd64", "arm64"]) {
    checksums[architecture] = await sha256(Deno.readFileSync(`${folder}/${tarballOf(release.version, architecture)}`));
  }
  Deno.writeTextFileSync(path, stringify(manifest(release, checksums)));
}
