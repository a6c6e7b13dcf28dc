/**
 * Reads flags and a configuration file into the typed, frozen `Configuration` that everything else uses.
 *
 *   command_line.ts              the command line and its configuration
 *   command_spec.ts              the interface of a command
 *   arguments.ts                 Go's flag syntax
 *   installed.ts                 flags of the installed service for commands without flags
 *   flags.ts                     the description of a flag
 *   flag_table.ts                every flag of `run`
 *   settings.ts                  settings from file and flags, and their origins
 *   kube_proxy_configuration.ts  every field of the file, with its default
 *   fields.ts                    the kinds of fields
 *   scalar.ts                    values in the file and on the command line
 *   file.ts                      reads a configuration file
 *   file_tree.ts                 its syntax tree, and the JSON parser
 *   yaml_file.ts                 the YAML parser
 *   duration.ts                  Go's durations
 *   validation.ts                kube-proxy's validation rules
 *   nearest.ts                   suggests similar names
 *   feature_gates.ts             the feature gates of kube-proxy
 *   source.ts                    `--source` and its flags
 *   balance.ts                   how services can be balanced in the mode
 *   site.ts                      the settings of a site
 *   ipvs.ts                      schedulers and deprecation of ipvs mode
 *   configuration.ts             the validated, frozen result
 *   canary.ts                    the canary's ranges and times
 *   document.ts                  writes a configuration as a file
 *   family_settings.ts           the settings of one family
 *   host_settings.ts             sysctls
 *   reload.ts                    follows changes of the file
 *
 * In: arguments and the text of a KubeProxyConfiguration. Out: `Configuration`, or errors that name the field. May touch: the
 * files that flags name.
 */
export { flagTexts, type GivenFlags } from "./arguments.ts";
export { type CommandLine, type CommandLineContext, parseCommandLine, readCommandLine } from "./command_line.ts";
export { type ArgumentSpec, type CommandSpec, placeholderOf, RUN, usageLine } from "./command_spec.ts";
export type { Configuration, LocalMode, LoggingFormat, SourceChoice } from "./configuration.ts";
export { documentOf, writeDocument } from "./document.ts";
export { formatDuration } from "./duration.ts";
export {
  countsTraffic,
  familySettings,
  ipvsSettings,
  lacksPrimaryAddress,
  nodePortPrefixes,
  relaySettings,
  routesLoopback,
  usesAnyRelay,
  usesRelay,
} from "./family_settings.ts";
export { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "./feature_gates.ts";
export { boolean, duration, fieldAt, text } from "./fields.ts";
export { FLAG_GROUPS, FLAGS, SOURCE_FLAGS } from "./flag_table.ts";

export { choice, type ChoiceFlag, type Flag, type FlagGroup, option } from "./flags.ts";
export { balanceOptions, labelKeys, watchedKinds } from "./balance.ts";
export { conntrackSettings, initSettings, trafficSettings } from "./host_settings.ts";
export { type InstalledService, partOfInstalled, withInstalled } from "./installed.ts";
export { ipvsDeprecation } from "./ipvs.ts";
export { suggestion } from "./nearest.ts";
export { applicable, followConfiguration } from "./reload.ts";
export { FIELDS } from "./kube_proxy_configuration.ts";
export { readSiteAddress } from "./site.ts";
export { isServer, sourceText } from "./source.ts";

export { HEALTHZ_PORT, METRICS_PORT, parseBindAddress } from "./validation.ts";
