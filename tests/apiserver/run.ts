/**
 * Tests Sluice against a real API server, isolated from the machine: `deno task test:apiserver [OPTION OF deno test]…`.
 *
 * KUBE_APISERVER is the path of kube-apiserver. etcd and, if it is there, kube-controller-manager are in the same folder or on
 * the PATH. With Helm, the chart is tested as well. CONTRIBUTING.md says how to build these programs.
 */
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { runDenoSuite, testFiles } from "../deno_suite.ts";
import { runIsolated } from "../isolated.ts";

const OPTIONS = ["--cached-only", "--no-check", "--allow-all"];

if (!Deno.env.get("KUBE_APISERVER")) {
  console.log("left out: KUBE_APISERVER is not set to the path of kube-apiserver");
  Deno.exit(0);
}
Deno.exit(
  await runIsolated(
    import.meta.url,
    (args) => runDenoSuite("apiserver", [...OPTIONS, ...args]),
    [...ISOLATED_PROGRAMS, ...testFiles("apiserver")],
  ),
);
