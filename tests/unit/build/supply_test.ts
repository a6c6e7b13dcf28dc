/** Third-party packages are pinned, permissively licensed, and have no install scripts. */
import assert from "node:assert/strict";
import { licencesPage } from "../../../build/licences.ts";
import { cacheFolders, licenceOf, lockedPackages } from "../../../build/packages.ts";

const ROOT = new URL("../../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, ROOT));
const packages = lockedPackages(read("deno.lock"));

Deno.test("every package is pinned by digest", () => {
  assert.notEqual(packages.length, 0);
  for (const { name, version, integrity } of packages) {
    assert.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/, `${name}@${version}`);
  }
  const { imports } = JSON.parse(read("deno.json")) as { readonly imports: Readonly<Record<string, string>> };
  for (const specifier of Object.values(imports)) {
    const [, name, version] = /^npm:(@?[^@]+)@(\d+\.\d+\.\d+)(\/|$)/.exec(specifier) ?? assert.fail(specifier);
    assert.ok(packages.some((one) => one.name === name && one.version === version), `${specifier} is not in deno.lock`);
  }
});

Deno.test("no package has an install script, and no build step allows one", () => {
  assert.deepEqual(packages.filter(({ hasInstallScript }) => hasInstallScript), []);
  for (const path of ["compile.sh", "deno.json", ".ci/run", ".ci/steps", ".ci/nightly"]) {
    assert.doesNotMatch(read(path), /allow-scripts|allowScripts/);
  }
  const lock = JSON.stringify({ npm: { "a@1.0.0_b@2.0.0": { integrity: "sha512-x", scripts: true } } });
  assert.deepEqual(lockedPackages(lock), [
    { name: "a", version: "1.0.0", integrity: "sha512-x", hasInstallScript: true },
  ]);
});

Deno.test("docs/licences.md is up to date, and every licence is permissive", () => {
  const page = read("docs/licences.md");
  const listed = new Map(
    [...page.matchAll(/^\| (\S+) \| (\d\S*) \| (.+) \|$/gm)].map(([, name, version, licence]) => [
      `${name}@${version}`,
      licence!,
    ]),
  );
  const caches = cacheFolders();
  const licence = (one: typeof packages[number]) => licenceOf(one, caches) ?? listed.get(`${one.name}@${one.version}`);
  assert.equal(page, licencesPage(packages, (one) => licence(one) ?? "not declared"));
  const permissive =
    /^\(?(MIT|ISC|0BSD|Apache-2\.0|BSD-[23]-Clause|Python-2\.0|PSF-2\.0|BlueOak-1\.0\.0|Unlicense|CC0-1\.0)\b/;
  for (const [name, declared] of listed) assert.match(declared, permissive, name);
});
