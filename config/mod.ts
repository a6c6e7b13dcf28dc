/**
 * Reads flags and a configuration file into the typed, frozen `Configuration` that everything else uses.
 *
 *   command_line.ts              the command line and its configuration
 *   command_spec.ts              the interface of a command: its arguments and flags
 *   arguments.ts                 Go's flag syntax, and the flags of the installed service
 *   run_flags.ts                 the flags of `run` that set no field of the file
 *   flag_table.ts                every flag of `run`
 *   settings.ts                  settings from file and flags, and their origins
 *   kube_proxy_configuration.ts  every field of the file, with its default
 *   scalar.ts                    values in the file and on the command line
 *   file.ts                      reads a configuration file, and parses JSON
 *   validation.ts                kube-proxy's validation rules
 *   feature_gates.ts             the feature gates of kube-proxy
 *   source.ts                    `--source` and its flags
 *   ipvs.ts                      schedulers and deprecation of ipvs mode
 *   configuration.ts             the validated, frozen result, and how it is written as a file
 *   family_settings.ts           the settings of one family
 *   host_settings.ts             sysctls, the permissions that features need, and how services can be balanced
 *   reload.ts                    follows changes of the file
 *
 * In: arguments and the text of a KubeProxyConfiguration. Out: `Configuration`, or errors that name the field. May touch: the
 * files that flags name.
 */
export { flagTexts, type InstalledService, partOfInstalled, withInstalled } from "./arguments.ts";
export { type CommandLine, type CommandLineContext, parseCommandLine, readCommandLine } from "./command_line.ts";
export * from "./command_spec.ts";
export {
  type Configuration,
  documentInEffect,
  documentOf,
  type LoggingFormat,
  writeDocument,
} from "./configuration.ts";
export {
  boolean,
  duration,
  fieldAt,
  formatDuration,
  text,
  type TextsField,
  wholeTexts,
} from "../platform/schema/mod.ts";
export * from "./family_settings.ts";
export { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "./feature_gates.ts";
export { FLAG_GROUPS, FLAGS, SOURCE_FLAGS } from "./flag_table.ts";
export { RUN_FLAGS } from "./run_flags.ts";
export * from "./host_settings.ts";
export { ipvsDeprecation } from "./ipvs.ts";
export { CONFIGURATION_SCOPE, followConfiguration, ignoredIn, readConfigurationText } from "./reload.ts";
export { DEFAULT_OOM_SCORE, FIELDS, HEALTHZ_PORT, METRICS_PORT } from "./kube_proxy_configuration.ts";
export { isServer, sourceText } from "./source.ts";
export { parseBindAddress } from "./validation.ts";
