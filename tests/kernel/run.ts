/** Runs the tests of this folder on the kernel, isolated from the machine: `deno task test:kernel [OPTION OF deno test]…`. */
import { missingPrerequisite } from "../../demo/prerequisites.ts";
import { fetchPackages, isolate, ISOLATED_PROGRAMS } from "../../demo/isolate.ts";

const folder = new URL(".", import.meta.url).pathname;
const root = new URL("../../", import.meta.url).pathname;

const missing = await missingPrerequisite(console.log);
if (missing !== undefined) {
  console.error(missing);
  Deno.exit(1);
}
const tests = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith("_test.ts"));
await fetchPackages([...ISOLATED_PROGRAMS.map((path) => root + path), ...tests.map((name) => folder + name)]);
const test = ["test", "--quiet", "--cached-only", "--no-check", "--allow-all", ...Deno.args, folder];
Deno.exit(await isolate([Deno.execPath(), ...test]));
