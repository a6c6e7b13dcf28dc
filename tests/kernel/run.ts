/** Runs the tests of this folder on the kernel, isolated from the machine: `deno task test:kernel [OPTION OF deno test]…`. */
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { runDenoSuite, testFiles } from "../deno_suite.ts";
import { runIsolated } from "../isolated.ts";

const OPTIONS = ["--cached-only", "--no-check", "--allow-all"];

Deno.exit(
  await runIsolated(
    import.meta.url,
    (args) => runDenoSuite("kernel", [...OPTIONS, ...args]),
    [...ISOLATED_PROGRAMS, ...testFiles("kernel")],
  ),
);
