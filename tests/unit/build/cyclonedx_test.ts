import assert from "node:assert/strict";
import { bundledPackages } from "../../../build/packages.ts";
import { cyclonedx, type Part } from "../../../build/cyclonedx.ts";

const WHOLE = { name: "sluice", version: "1.2.3", commit: "abc", builtAt: 1_700_000_000 };
const PARTS: readonly Part[] = [
  { type: "platform", name: "deno", version: "2.7.14", licence: "MIT", purl: "pkg:github/denoland/deno@v2.7.14" },
  {
    type: "library",
    name: "@scope/name",
    version: "1.0.0",
    licence: "(MIT OR CC0-1.0)",
    purl: "pkg:npm/%40scope/name@1.0.0",
    sha512: btoa("\x00\xff".repeat(32)),
  },
];

/** Asserts the constraints of the CycloneDX 1.6 schema on the fields in use. */
function assertEssentials(list: Record<string, unknown>): void {
  assert.equal(list.bomFormat, "CycloneDX");
  assert.equal(list.specVersion, "1.6");
  assert.ok(Number.isInteger(list.version) && Number(list.version) >= 1);
  assert.match(
    String(list.serialNumber),
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  );
  const metadata = list.metadata as { timestamp: string; component: Record<string, unknown> };
  assert.match(metadata.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const components = [metadata.component, ...list.components as Record<string, unknown>[]];
  const types = ["application", "framework", "library", "container", "platform", "operating-system", "file"];
  for (const component of components) {
    assert.ok(types.includes(String(component.type)), String(component.type));
    assert.ok(typeof component.name === "string" && component.name !== "");
    for (const { alg, content } of (component.hashes ?? []) as { alg: string; content: string }[]) {
      assert.equal(alg, "SHA-512");
      assert.match(content, /^[0-9a-f]{128}$/);
    }
    for (const choice of (component.licenses ?? []) as { license?: { id: string }; expression?: string }[]) {
      assert.ok((choice.license === undefined) !== (choice.expression === undefined));
    }
  }
  const refs = components.map((component) => component["bom-ref"]);
  assert.equal(new Set(refs).size, refs.length);
  for (const { ref, dependsOn } of list.dependencies as { ref: string; dependsOn: string[] }[]) {
    for (const one of [ref, ...dependsOn]) assert.ok(refs.includes(one), one);
  }
}

Deno.test("the SBOM is valid CycloneDX 1.6, with versions, licences and digests", async () => {
  const list = JSON.parse(await cyclonedx(WHOLE, PARTS));
  assertEssentials(list);
  assert.equal(list.metadata.timestamp, "2023-11-14T22:13:20.000Z");
  assert.deepEqual(list.components[1], {
    type: "library",
    "bom-ref": "pkg:npm/%40scope/name@1.0.0",
    group: "@scope",
    name: "name",
    version: "1.0.0",
    hashes: [{ alg: "SHA-512", content: "00ff".repeat(32) }],
    licenses: [{ expression: "(MIT OR CC0-1.0)" }],
    purl: "pkg:npm/%40scope/name@1.0.0",
  });
  assert.deepEqual(list.components[0].licenses, [{ license: { id: "MIT" } }]);
});

Deno.test("equal input gives an identical SBOM; different input gives another serial number", async () => {
  const [first, again, other] = await Promise.all(
    [WHOLE, WHOLE, { ...WHOLE, commit: "def" }].map((whole) => cyclonedx(whole, PARTS)),
  );
  assert.equal(again, first);
  assert.notEqual(JSON.parse(other!).serialNumber, JSON.parse(first!).serialNumber);
});

Deno.test("the bundled packages are those named in its source maps, from any registry", () => {
  const map = (...sources: string[]) => JSON.stringify({ sources });
  assert.deepEqual(
    bundledPackages([
      map("../core/proxy.ts", "../../.cache/deno/npm/registry.example/yaml/2.9.1/dist/index.js"),
      map("../npm/registry.example/@noble/hashes/2.4.0/sha2.js", "../npm/registry.example/yaml/2.9.1/a.js"),
    ]),
    [{ name: "@noble/hashes", version: "2.4.0" }, { name: "yaml", version: "2.9.1" }],
  );
});
