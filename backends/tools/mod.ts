/**
 * Runs the tools that configure the kernel, and classifies their failures.
 *
 * In: calls of tools. Out: their output, and the kinds of their failures. May touch: processes, and a netlink socket that asks whether the ruleset has changed.
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
export {
  flawsOf,
  IPTABLES_TOOLS,
  type KnownTool,
  SHARED_TOOLS,
  type ToolReading,
  TOOLS,
  ToolTooOldError,
  tooOld,
  versionIn,
} from "./known_tools.ts";
export { type KilledTool, repeatingRunner, watchKilledTools } from "./wrapped_runners.ts";
export { createNftSession, type NftSession } from "./nft_session.ts";
export { createProcessRunner } from "./process_runner.ts";
export { C_LIBRARIES, openRulesetGeneration, type RulesetGeneration, unlessUnchanged } from "./ruleset_generation.ts";
