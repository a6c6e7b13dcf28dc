/**
 * Runs the tools that configure the kernel, and classifies their failures.
 *
 * In: calls of tools. Out: their output, and the kinds of their failures. May touch: processes, and a netlink socket that asks whether the ruleset has changed.
 */
export * from "./runner.ts";
export * from "./failure.ts";
export * from "./known_tools.ts";
export * from "./wrapped_runners.ts";
export * from "./nft_session.ts";
export { createProcessRunner } from "./process_runner.ts";
export * from "./ruleset_generation.ts";
