/** Writes the SBOM of the executable in CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). */

/** A component of the executable. */
export interface Part {
  readonly type: "library" | "platform";
  readonly name: string;
  readonly version: string;
  /** SPDX identifier or expression. */
  readonly licence: string;
  /** `pkg:npm/yaml@2.9.1` */
  readonly purl: string;
  /** SHA-512 of the tarball, in base64. */
  readonly sha512?: string;
}

/** The executable that the SBOM describes. */
export interface Whole {
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  /** Commit time in seconds since 1970; undefined if unknown. */
  readonly builtAt: number | undefined;
}

/** Returns the SBOM as JSON. Deterministic: equal input gives equal bytes. */
export async function cyclonedx(whole: Whole, parts: readonly Part[]): Promise<string> {
  const ref = `pkg:generic/${whole.name}@${whole.version}`;
  const content = {
    version: 1,
    metadata: {
      ...(whole.builtAt === undefined ? {} : { timestamp: new Date(whole.builtAt * 1000).toISOString() }),
      component: {
        type: "application",
        "bom-ref": ref,
        name: whole.name,
        version: whole.version,
        purl: ref,
        properties: [{ name: "sluice:commit", value: whole.commit }],
      },
    },
    components: parts.map(component),
    dependencies: [{ ref, dependsOn: parts.map(({ purl }) => purl) }],
  };
  const serialNumber = await uuidOf(JSON.stringify(content));
  return `${JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6", serialNumber, ...content }, null, 2)}\n`;
}

function component({ type, name, version, licence, purl, sha512 }: Part) {
  const [, group, own] = /^(?:(@[^/]+)\/)?(.+)$/.exec(name)!;
  return {
    type,
    "bom-ref": purl,
    ...(group === undefined ? {} : { group }),
    name: own,
    version,
    ...(sha512 === undefined ? {} : { hashes: [{ alg: "SHA-512", content: hex(sha512) }] }),
    licenses: [/^(?!LicenseRef-)[\w.+-]+$/.test(licence) ? { license: { id: licence } } : { expression: licence }],
    purl,
  };
}

function hex(base64: string): string {
  return [...atob(base64)].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

/** UUID (RFC 9562, version 8) derived from the content, so that builds are reproducible. */
async function uuidOf(content: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(content)));
  digest[6] = 0x80 | digest[6]! & 0x0f;
  digest[8] = 0x80 | digest[8]! & 0x3f;
  const text = [...digest.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `urn:uuid:${text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")}`;
}
