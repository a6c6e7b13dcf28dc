import assert from "node:assert/strict";
import { bundledMaterials, debianMaterials, statement } from "../../../../build/release/provenance.ts";

const RELEASE = { version: "1.2.3", commit: "c0ffee", epoch: 1_700_000_000, repository: "https://host.example/sluice" };

Deno.test("the provenance names the files, the commit that they are from, and the builder", () => {
  const subject = [{ name: "a.deb", digest: { sha256: "00" } }];
  const { predicate, ...rest } = statement(RELEASE, "https://builder.example", subject, [{
    uri: "pkg:npm/yaml@2.9.1",
  }]);
  assert.deepEqual(rest, {
    _type: "https://in-toto.io/Statement/v1",
    subject,
    predicateType: "https://slsa.dev/provenance/v1",
  });
  assert.deepEqual(predicate.buildDefinition.resolvedDependencies, [
    { uri: "git+https://host.example/sluice@refs/tags/v1.2.3", digest: { gitCommit: "c0ffee" } },
    { uri: "pkg:npm/yaml@2.9.1" },
  ]);
  assert.equal(predicate.runDetails.builder.id, "https://builder.example");
});

Deno.test("locked Debian packages are materials with their checksums", () => {
  assert.deepEqual(debianMaterials("amd64 libcap2 1:2.66-4 ab12\narm64 nftables 1.0.6-2 cd34\n"), [
    { uri: "pkg:deb/debian/libcap2@1%3A2.66-4?arch=amd64", digest: { sha256: "ab12" } },
    { uri: "pkg:deb/debian/nftables@1.0.6-2?arch=arm64", digest: { sha256: "cd34" } },
  ]);
});

Deno.test("components of the SBOM are materials, with a digest if they have one", () => {
  const components = [{ purl: "pkg:npm/yaml@2.9.1", hashes: [{ alg: "SHA-512", content: "ef" }] }, {
    purl: "pkg:x/v8@1",
  }];
  assert.deepEqual(bundledMaterials(JSON.stringify({ components })), [
    { uri: "pkg:npm/yaml@2.9.1", digest: { sha512: "ef" } },
    { uri: "pkg:x/v8@1" },
  ]);
});
