/**
 * General-purpose utilities without knowledge of Sluice: clock, log, addresses, retries, abort signals, folder watches.
 *
 *   clock.ts           time and timers
 *   log.ts             structured logger
 *   read_up_to.ts      reads until a length or the end
 *   repeats.ts         rate limit for repeated log lines
 *   retry.ts           backoff and retry
 *   abort.ts           combined abort signals
 *   address.ts         IP addresses, prefixes and families
 *   host.ts            cores, search path and network namespace
 *   build.ts           version, build and shipped files
 *   output.ts          standard output and standard error
 *   terminal.ts        full-screen terminal output
 *   text.ts            numbers for people
 *   compact.ts         compact lists and strings
 *   same_data.ts       deep equality of plain data
 *   folder_changes.ts  watches a folder
 *   run_program.ts     runs a credential plugin
 *   tcp_probe.ts       tries a TCP connection
 *   yaml.ts            loads package yaml on first use
 *   yaml_package.ts    the parts of package yaml in use
 *
 * In: nothing from the project. Out: functions for every room. May touch: the clock, the standard streams, files, addresses
 * that are probed.
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
export { type OpenWatch, watchChanges } from "./folder_changes.ts";
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
export { readUpTo } from "./read_up_to.ts";
export { type LimitedLogger, limitRepeats } from "./repeats.ts";
export { type Backoff, createBackoff, retry } from "./retry.ts";
export type { ProgramResult, RunProgram } from "./run_program.ts";
export { sameData } from "./same_data.ts";
export { probeTcp, type TcpProbeResult } from "./tcp_probe.ts";
export { isInteractive, openScreen } from "./terminal.ts";
export { countLines, countText, durationText, megabytesText, plural, rateText, timeOfDay } from "./text.ts";
export { loadYaml, type Yaml } from "./yaml.ts";
