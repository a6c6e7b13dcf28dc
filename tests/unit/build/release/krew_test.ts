import assert from "node:assert/strict";
import { manifest, tarballOf } from "../../../../build/release/krew.ts";

const RELEASE = { version: "1.2.3", repository: "https://host.example/sluice" };
const { apiVersion, kind, metadata, spec } = manifest(RELEASE, { amd64: "ab".repeat(32), arm64: "cd".repeat(32) });

Deno.test("the manifest of the kubectl plugin has the fields that krew requires", () => {
  assert.equal(apiVersion, "krew.googlecontainertools.github.com/v1alpha2");
  assert.equal(kind, "Plugin");
  // `kubectl sluice`.
  assert.deepEqual(metadata, { name: "sluice" });
  assert.equal(spec.version, "v1.2.3");
  assert.equal(spec.homepage, RELEASE.repository);
  assert.match(spec.shortDescription, /^[A-Z].{1,50}[^.]$/);
  assert.ok(spec.description);
});

Deno.test("each platform has the address and checksum of its tarball", () => {
  const folder = "https://host.example/sluice/releases/download/v1.2.3";
  assert.deepEqual(spec.platforms.map(({ selector, uri, sha256 }) => [selector.matchLabels, uri, sha256]), [
    [{ os: "linux", arch: "amd64" }, `${folder}/sluice-1.2.3-linux-amd64.tar.gz`, "ab".repeat(32)],
    [{ os: "linux", arch: "arm64" }, `${folder}/sluice-1.2.3-linux-arm64.tar.gz`, "cd".repeat(32)],
  ]);
});

Deno.test("each platform installs the executable and its licence", () => {
  for (const { files, bin } of spec.platforms) {
    assert.deepEqual(files.map(({ from, to }) => `${from} ${to}`), ["*/sluice .", "*/LICENSE .", "*/NOTICE ."]);
    assert.equal(bin, "sluice");
  }
});

Deno.test("the tarball of the manifest is that of install.sh", () => {
  const script = Deno.readTextFileSync(new URL("../../../../install.sh", import.meta.url));
  assert.ok(script.includes(`tarball) file=${tarballOf("$version", "$architecture")} ;;`));
});
