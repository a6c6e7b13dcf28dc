/**
 * Writes the SBOM of an image: its Debian packages with their licences, and the executable. Called by release.sh.
 *
 *   image_sbom.ts ARCHITECTURE LAYERS SBOM     # LAYERS/root is the unpacked root
 */
import { cyclonedx, type Part } from "../cyclonedx.ts";
import { readRelease } from "./environment.ts";

/** Debian's names of licences that SPDX calls differently (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/). */
const SPDX: Readonly<Record<string, string>> = {
  "expat": "MIT",
  "mit": "MIT",
  "isc": "ISC",
  "zlib": "Zlib",
  "bsd-2-clause": "BSD-2-Clause",
  "bsd-3-clause": "BSD-3-Clause",
  "bsd-4-clause": "BSD-4-Clause",
  "apache-2.0": "Apache-2.0",
  "artistic": "Artistic-1.0",
  "mpl-2.0": "MPL-2.0",
};

/** Returns the SPDX expression for all licences that a Debian copyright file names. */
export function licencesIn(copyright: string): string {
  const names = new Set<string>();
  for (const [, field] of copyright.matchAll(/^License:[ \t]*(\S.*)$/gm)) {
    for (const name of field!.split(/,?\s+(?:and|or)\s+(?:\/\s+)?|\s+with\s.*$|,\s*/)) {
      if (name) names.add(spdxOf(name));
    }
  }
  // Older files are free text.
  return names.size === 0 ? "LicenseRef-debian-copyright-file" : [...names].sort().join(" AND ");
}

function spdxOf(name: string): string {
  const [, kind, version, later] = /^([AL]?GPL|GFDL)-(\d+(?:\.\d+)?)(\+?)$/.exec(name) ?? [];
  if (kind !== undefined) {
    return `${kind}-${version!.includes(".") ? version : `${version}.0`}-${later ? "or-later" : "only"}`;
  }
  return SPDX[name.toLowerCase()] ?? `LicenseRef-debian-${name.replace(/[^\w.-]+/g, "-")}`;
}

/** Returns the component for a package with the given control file, of Debian 13. */
export function debianPart(control: string, copyright: string): Part {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(control)![1]!;
  const [name, version, architecture] = [field("Package"), field("Version"), field("Architecture")];
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${
    encodeURIComponent(version)
  }?arch=${architecture}&distro=debian-13`;
  return { type: "library", name, version, licence: licencesIn(copyright), purl };
}

if (import.meta.main) {
  const [architecture, layers, sbom] = Deno.args;
  if (architecture === undefined || layers === undefined || sbom === undefined) {
    throw new Error("usage: image_sbom.ts ARCHITECTURE LAYERS SBOM");
  }
  const { version, commit, epoch } = readRelease();
  const text = (path: string) => Deno.readTextFileSync(`${layers}/root/${path}`);
  const packages = [...Deno.readDirSync(`${layers}/root/var/lib/dpkg/status.d`)].map(({ name }) => name).sort();
  const program: Part = {
    type: "library",
    name: "sluice",
    version,
    licence: "Apache-2.0",
    purl: `pkg:generic/sluice@${version}?arch=${architecture}`,
  };
  const parts = packages.map((name) =>
    debianPart(text(`var/lib/dpkg/status.d/${name}`), text(`usr/share/doc/${name}/copyright`))
  );
  const whole = { name: `sluice-image-${architecture}`, version, commit, builtAt: epoch };
  Deno.writeTextFileSync(sbom, await cyclonedx(whole, [program, ...parts]));
}
