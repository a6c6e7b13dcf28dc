import assert from "node:assert/strict";
import { sha256 } from "../../../../build/release/environment.ts";
import { type Descriptor, imageConfiguration, labels, writeLayout } from "../../../../build/release/image.ts";

const RELEASE = { version: "1.2.3", commit: "c0ffee", epoch: 1_700_000_000, repository: "https://host.example/sluice" };
const layer = (text: string) => ({ tar: new TextEncoder().encode(text), comment: text });

async function layoutOf(architectures: readonly string[]) {
  const folder = await Deno.makeTempDir();
  await writeLayout(
    folder,
    RELEASE,
    Object.fromEntries(architectures.map((name) => [name, [layer("root"), layer(name)]])),
  );
  return {
    top: JSON.parse(await Deno.readTextFile(`${folder}/index.json`)),
    read: async ({ digest, size }: Descriptor) => {
      const bytes = await Deno.readFile(`${folder}/blobs/${digest.replace(":", "/")}`);
      assert.equal(`sha256:${await sha256(bytes)}`, digest);
      assert.equal(bytes.length, size);
      return bytes;
    },
  };
}

const json = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes));

Deno.test("a layout has one index, whose manifests lead to layers of each architecture", async () => {
  const { top, read } = await layoutOf(["amd64", "arm64"]);
  assert.equal(top.manifests.length, 1);
  assert.equal(top.manifests[0].annotations["org.opencontainers.image.ref.name"], "1.2.3");
  const { manifests } = json(await read(top.manifests[0]));
  assert.deepEqual(manifests.map(({ platform }: { readonly platform: unknown }) => platform), [
    { architecture: "amd64", os: "linux" },
    { architecture: "arm64", os: "linux", variant: "v8" },
  ]);
  for (const manifest of manifests) {
    const { config, layers } = json(await read(manifest));
    const { architecture, rootfs } = json(await read(config));
    assert.equal(architecture, manifest.platform.architecture);
    const program = new Blob([await read(layers[1])]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = await new Response(program).bytes();
    assert.equal(new TextDecoder().decode(bytes), architecture);
    assert.equal(rootfs.diff_ids[1], `sha256:${await sha256(bytes)}`);
  }
});

Deno.test("a layout is the same for the same input", async () => {
  assert.deepEqual((await layoutOf(["amd64"])).top, (await layoutOf(["amd64"])).top);
});

Deno.test("an image names its version, commit, source and licence, and the commit's time", async () => {
  const { created, config } = await imageConfiguration(RELEASE, "amd64", [layer("root")]);
  assert.equal(created, "2023-11-14T22:13:20Z");
  assert.deepEqual(config.Labels, labels(RELEASE));
  assert.equal(config.Labels["org.opencontainers.image.revision"], "c0ffee");
  assert.equal(config.Labels["org.opencontainers.image.version"], "1.2.3");
  assert.equal(config.Labels["org.opencontainers.image.licenses"], "Apache-2.0");
});
