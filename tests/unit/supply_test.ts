import assert from "node:assert/strict";

const read = (name: string) => JSON.parse(Deno.readTextFileSync(new URL(`../../${name}`, import.meta.url)));

Deno.test("every package in use is locked with its integrity", () => {
  for (const lock of ["deno.lock", "site/deno.lock"]) {
    const packages = Object.entries(read(lock).npm as Record<string, { readonly integrity?: string }>);
    assert.ok(packages.length > 0);
    assert.deepEqual(packages.filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? "")).map(([one]) => one), []);
  }
});

Deno.test("the import map names exact versions, from one registry", () => {
  for (const [name, target] of Object.entries(read("deno.json").imports as Record<string, string>)) {
    assert.match(target, /^npm:(@[\w.-]+\/)?[\w.-]+@\d+\.\d+\.\d+(\/.*)?$/, name);
  }
  const { dependencies, overrides } = read("site/package.json");
  for (const [name, version] of Object.entries({ ...dependencies, ...overrides } as Record<string, string>)) {
    assert.match(version, /^\d+\.\d+\.\d+$/, name);
  }
});

Deno.test("no package runs a script during its installation", () => {
  const { allowScripts, nodeModulesDir } = read("deno.json");
  assert.equal(allowScripts, undefined);
  assert.equal(nodeModulesDir, "none");
  assert.equal(read("site/deno.json").allowScripts, undefined);
});
