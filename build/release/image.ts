/**
 * Writes an OCI image layout (https://github.com/opencontainers/image-spec, v1.1) with one image index for all
 * architectures. Called by release.sh.
 *
 *   image.ts LAYERS LAYOUT     # LAYERS/amd64/root.tar, LAYERS/amd64/program.tar, …
 */
import { readRelease, type Release, sha256 } from "./environment.ts";

/** A blob's reference from another one. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** A layer: its tar, and why it exists. */
export interface Layer {
  readonly tar: Uint8Array<ArrayBuffer>;
  readonly comment: string;
}

const TYPES = "application/vnd.oci.image";

/** Configuration of an image, with the specification's names. */
export interface ImageConfiguration {
  readonly created: string;
  readonly architecture: string;
  readonly os: string;
  readonly config: {
    readonly Env: readonly string[];
    readonly Entrypoint: readonly string[];
    readonly WorkingDir: string;
    readonly Labels: Readonly<Record<string, string>>;
  };
  readonly rootfs: { readonly type: "layers"; readonly diff_ids: readonly string[] };
  readonly history: readonly { readonly created: string; readonly created_by: string }[];
}

/** Returns the configuration of an image with these uncompressed layers. */
export async function imageConfiguration(
  release: Release,
  architecture: string,
  layers: readonly Layer[],
): Promise<ImageConfiguration> {
  const created = timeOf(release);
  return {
    created,
    architecture,
    os: "linux",
    config: {
      Env: ["PATH=/usr/local/bin:/usr/sbin:/usr/bin"],
      Entrypoint: ["/usr/local/bin/sluice"],
      WorkingDir: "/",
      Labels: labels(release),
    },
    rootfs: {
      type: "layers",
      diff_ids: await Promise.all(layers.map(async ({ tar }) => `sha256:${await sha256(tar)}`)),
    },
    history: layers.map(({ comment }) => ({ created, created_by: comment })),
  };
}

/** Labels of the image and annotations of the index, with the keys of the OCI specification. */
export function labels({ version, commit, epoch, repository }: Release): Readonly<Record<string, string>> {
  const values = {
    title: "Sluice",
    description: "Kubernetes service proxy",
    version,
    revision: commit,
    created: timeOf({ epoch }),
    licenses: "Apache-2.0",
    source: repository,
    documentation: `${repository}/tree/v${version}/docs`,
  };
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`org.opencontainers.image.${key}`, value]));
}

function timeOf({ epoch }: Pick<Release, "epoch">): string {
  return new Date(epoch * 1000).toISOString().replace(/\.\d+/, "");
}

/** Compresses with gzip; the header contains neither a name nor a time. */
async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

/** Writes layouts into a folder. */
function layoutIn(folder: string) {
  Deno.mkdirSync(`${folder}/blobs/sha256`, { recursive: true });
  async function blob(mediaType: string, bytes: Uint8Array<ArrayBuffer>): Promise<Descriptor> {
    const digest = await sha256(bytes);
    Deno.writeFileSync(`${folder}/blobs/sha256/${digest}`, bytes);
    return { mediaType: `${TYPES}.${mediaType}`, digest: `sha256:${digest}`, size: bytes.length };
  }
  return {
    blob,
    json: (mediaType: string, value: unknown) => blob(mediaType, new TextEncoder().encode(JSON.stringify(value))),
    top: (name: string, value: unknown) => Deno.writeTextFileSync(`${folder}/${name}`, JSON.stringify(value)),
  };
}

/** Writes the layout of a release with the layers of each architecture. */
export async function writeLayout(
  folder: string,
  release: Release,
  images: Readonly<Record<string, readonly Layer[]>>,
): Promise<void> {
  const layout = layoutIn(folder);
  const manifests = [];
  for (const [architecture, layers] of Object.entries(images)) {
    const config = await layout.json("config.v1+json", await imageConfiguration(release, architecture, layers));
    const compressed = [];
    for (const { tar } of layers) compressed.push(await layout.blob("layer.v1.tar+gzip", await gzip(tar)));
    const mediaType = `${TYPES}.manifest.v1+json`;
    const manifest = await layout.json("manifest.v1+json", { schemaVersion: 2, mediaType, config, layers: compressed });
    manifests.push({ ...manifest, platform: { architecture, os: "linux", ...variantOf(architecture) } });
  }
  const mediaType = `${TYPES}.index.v1+json`;
  const index = { schemaVersion: 2, mediaType, manifests, annotations: labels(release) };
  const annotations = { "org.opencontainers.image.ref.name": release.version };
  const only = { ...await layout.json("index.v1+json", index), annotations };
  layout.top("index.json", { schemaVersion: 2, mediaType, manifests: [only] });
  layout.top("oci-layout", { imageLayoutVersion: "1.0.0" });
}

function variantOf(architecture: string): { readonly variant?: string } {
  return architecture === "arm64" ? { variant: "v8" } : {};
}

if (import.meta.main) {
  const [folder, layout] = Deno.args;
  if (folder === undefined || layout === undefined) throw new Error("usage: image.ts LAYERS LAYOUT");
  const layersOf = (architecture: string): readonly Layer[] => [
    { tar: Deno.readFileSync(`${folder}/${architecture}/root.tar`), comment: "tools of the kernel, from Debian 13" },
    { tar: Deno.readFileSync(`${folder}/${architecture}/program.tar`), comment: "sluice" },
  ];
  const architectures = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  await writeLayout(layout, readRelease(), Object.fromEntries(architectures.map((name) => [name, layersOf(name)])));
}
