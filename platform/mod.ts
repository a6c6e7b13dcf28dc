/**
 * Small tools that know nothing of Sluice: clock, log, addresses, retries, aborts, folders that are watched.
 *
 * In: nothing of the project. Out: functions for every room. May touch: the process's own clock, standard streams and files.
 */
export { abortedBy } from "./abort.ts";
export {
  addressBytes,
  addressOfBytes,
  canonicalAddress,
  canonicalPrefix,
  FAMILIES,
  type Family,
  familyOf,
  isLoopback,
  joinHostPort,
  otherFamily,
  prefixContains,
  splitHostPort,
} from "./address.ts";
export { readBuild } from "./build.ts";
export { type Clock, sleep, systemClock } from "./clock.ts";
export { compact } from "./compact.ts";
export { machineCores } from "./cores.ts";
export { searchPath } from "./environment.ts";
export { type Finding, findingsText, worstOf } from "./finding.ts";
export { openDenoWatch, type OpenWatch, watchChanges } from "./folder_changes.ts";
export { countLines } from "./lines.ts";
export {
  createLogger,
  errorText,
  type Fields,
  type Level,
  levelOfVerbosity,
  type Logger,
  silentLogger,
} from "./log.ts";
export { networkNamespace } from "./network_namespace.ts";
export { writeToStderr, writeToStdout } from "./output.ts";
export { countText, durationText, megabytesText, plural, timeOfDay } from "./quantities.ts";
export { type LimitedLogger, limitRepeats } from "./repeats.ts";
export { type Backoff, createBackoff, retry } from "./retry.ts";
export type { ProgramResult, RunProgram } from "./run_program.ts";
export { sameData } from "./same_data.ts";
export { runsFromSource, shippedText } from "./shipped.ts";
export { joinFlat } from "./join_flat.ts";
export { canTakeScreen, takeScreen } from "./terminal.ts";
export { startTurn } from "./turns.ts";
export { unlessAborted } from "./unless_aborted.ts";
export { KUBERNETES_VERSION, VERSION } from "./version.ts";
export { loadYaml, type Yaml } from "./yaml.ts";
