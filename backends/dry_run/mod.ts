/**
 * Shows what a state would put into the kernel, and how that differs from what is there, without changing it.
 */
export type { Difference } from "./difference.ts";
export { compareWithKernel, rehearse } from "./dry_run.ts";
