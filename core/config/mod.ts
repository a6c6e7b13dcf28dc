/** From flags and a configuration file to the one typed, frozen configuration that everything else reads. */
export type { GivenFlags } from "./arguments.ts";
export { type CommandLine, type CommandLineContext, parseCommandLine, readCommandLine } from "./command_line.ts";
export { type ArgumentSpec, type CommandSpec, RUN } from "./command_spec.ts";
export type { Configuration, LocalMode, LoggingFormat, SourceChoice } from "./configuration.ts";
export { ipvsDeprecation } from "./ipvs_deprecation.ts";
export { documentOf, writeDocument } from "./document.ts";
export { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "./feature_gates.ts";
export { placeholderOf, usageLine } from "./usage.ts";
export { flagTexts } from "./flag_texts.ts";
export { boolean, text } from "./fields.ts";
export { choice, type ChoiceFlag, type Flag, type FlagGroup, option } from "./flags.ts";
export { sourceText } from "./source.ts";
export { FLAG_GROUPS } from "./flag_table.ts";
export { HEALTHZ_PORT, METRICS_PORT } from "./validation.ts";
