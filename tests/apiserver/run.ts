/**
 * Tests Sluice against a real API server, isolated from the machine: `deno task test:apiserver [OPTION OF deno test]…`.
 *
 * KUBE_APISERVER is the path of kube-apiserver. etcd and, if it is there, kube-controller-manager are in the same folder or on
 * the PATH. With Helm, the chart is tested as well. CONTRIBUTING.md says how to build these programs.
 */
import { missingPrerequisite } from "../../demo/prerequisites.ts";
import { fetchPackages, isolate, ISOLATED_PROGRAMS } from "../../demo/isolate.ts";

const folder = new URL(".", import.meta.url).pathname;
const root = new URL("../../", import.meta.url).pathname;

if (!Deno.env.get("KUBE_APISERVER")) {
  console.log("left out: KUBE_APISERVER is not set to the path of kube-apiserver");
  Deno.exit(0);
}
const missing = await missingPrerequisite(console.log);
if (missing !== undefined) {
  console.error(missing);
  Deno.exit(1);
}
const programs = [...ISOLATED_PROGRAMS, "tests/apiserver/api_server_test.ts"];
await fetchPackages(programs.map((path) => root + path));
const test = ["test", "--quiet", "--cached-only", "--no-check", "--allow-all", ...Deno.args, folder];
Deno.exit(await isolate([Deno.execPath(), ...test]));
