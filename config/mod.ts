/**
 * Reads flags and a configuration file into the typed, frozen `Configuration` that everything else uses.
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
export { familySettings, ipvsSettings, lacksPrimaryAddress, nodePortPrefixes } from "./family_settings.ts";
export { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "./feature_gates.ts";
export { boolean, fieldAt, text } from "./fields.ts";
export { FLAG_GROUPS, FLAGS, SOURCE_FLAGS } from "./flag_table.ts";

export { choice, type ChoiceFlag, type Flag, type FlagGroup, option } from "./flags.ts";
export { conntrackSettings, initSettings } from "./host_settings.ts";
export { ipvsDeprecation } from "./ipvs.ts";
export { suggestion } from "./nearest.ts";
export { applicable, followConfiguration } from "./reload.ts";
export { FIELDS } from "./kube_proxy_configuration.ts";
export { sourceText } from "./source.ts";

export { HEALTHZ_PORT, METRICS_PORT } from "./validation.ts";
