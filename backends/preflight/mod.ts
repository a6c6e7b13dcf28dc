/**
 * Examines a node before a proxy runs on it: tools, kernel, limits, and other programs that do the same job.
 *
 * In: the mode and a runner. Out: findings. May run: the tools, in trials that leave nothing behind.
 */
export { examineNode } from "./preflight.ts";
