import assert from "node:assert/strict";

const read = (name: string) => JSON.parse(Deno.readTextFileSync(new URL(`../../${name}`, import.meta.url)));

Deno.test("every package in use is locked with its integrity", () => {
  const packages = Object.entries(read("deno.lock").npm as Record<string, { readonly integrity?: string }>);
  assert.ok(packages.length > 0);
  assert.deepEqual(packages.filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? "")).map(([name]) => name), []);
});

Deno.test("the import map names exact versions, from one registry", () => {
  for (const [name, target] of Object.entries(read("deno.json").imports as Record<string, string>)) {
    assert.match(target, /^npm:(@[\w.-]+\/)?[\w.-]+@\d+\.\d+\.\d+(\/.*)?$/, name);
  }
});

Deno.test("no package runs a script during its installation", () => {
  const { allowScripts, nodeModulesDir } = read("deno.json");
  assert.equal(allowScripts, undefined);
  assert.equal(nodeModulesDir, "none");
});
