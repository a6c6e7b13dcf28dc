/**
 * Runs a backend's sync without its effects: the unchanged backend, on a runner that collects changes instead of
 * starting tools.
 *
 * In: a full snapshot, and a runner for the tools that read. Out: the input of the tools (`sluice render`), the
 * differences between the kernel and the state (`sluice diff`). May run: tools that only read.
 */
export type { Difference } from "./differences.ts";
export { compareWithKernel, dryRun } from "./dry_run.ts";
