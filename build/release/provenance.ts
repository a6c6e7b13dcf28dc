/**
 * Writes the build provenance of all files of a release: an in-toto statement with SLSA's predicate
 * (https://slsa.dev/spec/v1.0/provenance). `cosign attest-blob --statement` signs it. Called by release.sh.
 *
 *   provenance.ts FOLDER STATEMENT
 */
import { readRelease, type Release, sha256 } from "./environment.ts";

/** Something with a digest: a file of the release, or what it was made of. */
export interface Resource {
  readonly name?: string;
  readonly uri?: string;
  readonly digest?: Readonly<Record<string, string>>;
}

/** An in-toto statement with SLSA's predicate, with their names. */
export interface Statement {
  readonly _type: string;
  readonly subject: readonly Resource[];
  readonly predicateType: string;
  readonly predicate: {
    readonly buildDefinition: {
      readonly buildType: string;
      readonly externalParameters: Readonly<Record<string, string>>;
      readonly resolvedDependencies: readonly Resource[];
    };
    readonly runDetails: { readonly builder: { readonly id: string } };
  };
}

/** Returns the statement. The times of the build are left out, since they would differ between two builds. */
export function statement(
  { version, commit, repository }: Release,
  builder: string,
  subject: readonly Resource[],
  materials: readonly Resource[],
): Statement {
  const uri = `git+${repository}@refs/tags/v${version}`;
  const source: Resource = { uri, digest: { gitCommit: commit } };
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject,
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: `${repository}/blob/v${version}/release.sh`,
        externalParameters: { source: uri, version },
        resolvedDependencies: [source, ...materials],
      },
      runDetails: { builder: { id: builder } },
    },
  };
}

/** Returns the packages of a lock file of image-root. */
export function debianMaterials(lock: string): readonly Resource[] {
  return lock.trim().split("\n").map((line) => {
    const [architecture, name, version, digest] = line.split(" ");
    return {
      uri: `pkg:deb/debian/${encodeURIComponent(name!)}@${encodeURIComponent(version!)}?arch=${architecture}`,
      digest: { sha256: digest! },
    };
  });
}

/** Returns the components of an SBOM as materials. */
export function bundledMaterials(sbom: string): readonly Resource[] {
  const { components } = JSON.parse(sbom) as {
    readonly components: readonly {
      readonly purl: string;
      readonly hashes?: readonly { readonly content: string }[];
    }[];
  };
  return components.map(({ purl, hashes }) => ({
    uri: purl,
    ...(hashes === undefined ? {} : { digest: { sha512: hashes[0]!.content } }),
  }));
}

if (import.meta.main) {
  const [folder, path] = Deno.args;
  if (folder === undefined || path === undefined) throw new Error("usage: provenance.ts FOLDER STATEMENT");
  const release = readRelease();
  const subject: Resource[] = [];
  for (const name of [...Deno.readDirSync(folder)].map(({ name }) => name).sort()) {
    subject.push({ name, digest: { sha256: await sha256(Deno.readFileSync(`${folder}/${name}`)) } });
  }
  const materials = [
    ...bundledMaterials(Deno.readTextFileSync(`${folder}/sluice-${release.version}.cdx.json`)),
    ...debianMaterials(Deno.readTextFileSync(new URL("image-packages.lock", import.meta.url))),
  ];
  const builder = Deno.env.get("BUILDER_ID") || `${release.repository}/blob/v${release.version}/CONTRIBUTING.md`;
  Deno.writeTextFileSync(path, `${JSON.stringify(statement(release, builder, subject, materials), null, 2)}\n`);
}
