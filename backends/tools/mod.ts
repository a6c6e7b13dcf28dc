/**
 * Runs the kernel's tools.
 */
export { createProcessRunner, type ProcessRunnerOptions } from "./process_runner.ts";
export {
  type Conversation,
  failureText,
  lacksMeans,
  type Runner,
  type ToolCall,
  ToolMissingError,
  type ToolResult,
  wasKilled,
} from "./runner.ts";
