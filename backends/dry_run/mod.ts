/**
 * A backend's sync without its effects: the backend runs as it is, on a runner that collects its changes in place of
 * starting the tools.
 *
 * In: a whole state, and a runner for the tools that read. Out: the input of the tools (`sluice render`), the differences
 * between the kernel and the state (`sluice diff`). May start: tools that only read.
 */
export type { Difference } from "./differences.ts";
export { compareWithKernel, dryRun } from "./dry_run.ts";
