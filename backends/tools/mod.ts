/**
 * Runs the kernel's tools.
 */
export type { ChainChange, PlaceChange } from "./change.ts";
export { createProcessRunner, type ProcessRunnerOptions } from "./process_runner.ts";
export {
  type Conversation,
  failureText,
  lacksMeans,
  printedInput,
  type Runner,
  type ToolCall,
  ToolMissingError,
  type ToolResult,
  wasKilled,
} from "./runner.ts";
