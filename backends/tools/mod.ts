/**
 * Runs the tools that configure the kernel, and classifies their failures.
 *
 * In: calls of tools. Out: their output, and the kinds of their failures. May touch: processes.
 */
export type { ChainChange, MembersChange, PlaceChange } from "./change.ts";
export {
  classifyFailure,
  failureOf,
  type FailureTable,
  failureText,
  isHostFailure,
  isLackOfFeature,
  requireSuccess,
  runOrThrow,
  type ToolFailure,
} from "./failure.ts";
export { createProcessRunner, type ProcessRunnerOptions } from "./process_runner.ts";
export { repeatingRunner } from "./repeating_runner.ts";
export {
  type Conversation,
  printedInput,
  type Runner,
  type ToolCall,
  ToolMissingError,
  ToolMovedError,
  type ToolResult,
  ToolTimeoutError,
} from "./runner.ts";
