/**
 * General-purpose utilities without knowledge of Sluice: clock, log, addresses, retries, abort signals, folder watches.
 *
 * In: nothing from the project. Out: functions for every room. May touch: the clock, the standard streams, files.
 */
export { abortedBy, unlessAborted } from "./abort.ts";
export {
  addressBytes,
  addressOfBytes,
  canonicalAddress,
  canonicalPrefix,
  FAMILIES,
  type Family,
  familyOf,
  hostPrefix,
  isLoopback,
  joinHostPort,
  otherFamily,
  prefixContains,
  splitHostPort,
} from "./address.ts";
export { KUBERNETES_VERSION, readBuild, runsFromSource, shippedText, VERSION } from "./build.ts";
export { type Clock, sleep, startTurn, systemClock } from "./clock.ts";
export { compact, joinFlat } from "./compact.ts";
export { openDenoWatch, type OpenWatch, watchChanges } from "./folder_changes.ts";
export { machineCores, networkNamespace, searchPath } from "./host.ts";
export {
  createLogger,
  errorText,
  type Fields,
  type Level,
  levelOfVerbosity,
  type Logger,
  silentLogger,
} from "./log.ts";
export { writeToStderr, writeToStdout } from "./output.ts";
export { type LimitedLogger, limitRepeats } from "./repeats.ts";
export { type Backoff, createBackoff, retry } from "./retry.ts";
export type { ProgramResult, RunProgram } from "./run_program.ts";
export { sameData } from "./same_data.ts";
export { isInteractive, openScreen } from "./terminal.ts";
export { countLines, countText, durationText, megabytesText, plural, timeOfDay } from "./text.ts";
export { loadYaml, type Yaml } from "./yaml.ts";
