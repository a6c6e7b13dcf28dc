/**
 * Runs the tools that configure the kernel, and classifies their failures.
 *
 * In: calls of tools. Out: their output, and the kinds of their failures. May touch: processes.
 */
export {
  type ChainChange,
  type Conversation,
  ifInstalled,
  type PlaceChange,
  printedInput,
  type Runner,
  type ToolCall,
  ToolMissingError,
  ToolMovedError,
  type ToolResult,
  ToolTimeoutError,
} from "./runner.ts";
export {
  classifyFailure,
  failureOf,
  failureText,
  isHostFailure,
  isLackOfFeature,
  isOutcomeUnknown,
  requireSuccess,
  runOrThrow,
  type ToolFailure,
} from "./failure.ts";
export { type KilledTool, repeatingRunner, watchKilledTools } from "./wrapped_runners.ts";
export { createProcessRunner } from "./process_runner.ts";
