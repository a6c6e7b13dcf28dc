/** From flags and a configuration file to the one typed, frozen configuration that everything else reads. */
export { type CommandLine, type CommandLineContext, parseCommandLine } from "./command_line.ts";
export type { Configuration, LocalMode, LoggingFormat, SourceChoice } from "./configuration.ts";
export { documentOf } from "./document.ts";
