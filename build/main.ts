/**
 * Writes build.json (platform/build.ts reads it) and the CycloneDX SBOM from the source maps of the bundle. Called by
 * compile.sh.
 *
 *   main.ts MAPS BUILD.JSON SBOM COMMIT [COMMIT TIME IN SECONDS SINCE 1970]
 */
import { VERSION } from "../platform/build.ts";
import { cyclonedx, type Part } from "./cyclonedx.ts";
import { bundledPackages, cacheFolders, licenceOf, lockedPackages } from "./packages.ts";

const [maps, build, sbom, commit, seconds] = Deno.args;
if (maps === undefined || build === undefined || sbom === undefined || commit === undefined) {
  throw new Error("usage: main.ts MAPS BUILD.JSON SBOM COMMIT [SECONDS]");
}

const locked = lockedPackages(Deno.readTextFileSync(new URL("../deno.lock", import.meta.url)));
const caches = cacheFolders();
const packages = bundledPackages(mapsIn(maps));

const libraries = packages.map(({ name, version }): Part => {
  const pinned = locked.find((one) => one.name === name && one.version === version);
  if (pinned === undefined) throw new Error(`${name} ${version} is in the bundle but not in deno.lock`);
  return {
    type: "library",
    name,
    version,
    licence: licenceOf(pinned, caches) ?? "not declared",
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    sha512: pinned.integrity.replace(/^sha512-/, ""),
  };
});
const { deno, v8 } = Deno.version;
const parts: readonly Part[] = [
  { type: "platform", name: "deno", version: deno, licence: "MIT", purl: `pkg:github/denoland/deno@v${deno}` },
  { type: "platform", name: "v8", version: v8, licence: "BSD-3-Clause", purl: `pkg:github/v8/v8@${v8}` },
  ...libraries,
];
const builtAt = seconds ? Number(seconds) : undefined;
Deno.writeTextFileSync(sbom, await cyclonedx({ name: "sluice", version: VERSION, commit, builtAt }, parts));
const dependencies = Object.fromEntries(packages.map(({ name, version }) => [name, version]));
Deno.writeTextFileSync(build, `${JSON.stringify({ commit, dependencies })}\n`);

function* mapsIn(folder: string): Iterable<string> {
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    if (isDirectory) yield* mapsIn(`${folder}/${name}`);
    else if (name.endsWith(".js.map")) yield Deno.readTextFileSync(`${folder}/${name}`);
  }
}
