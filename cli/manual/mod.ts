/**
 * Help, the man page and shell completions, all from the table of flags.
 */
export { completionScript, type Shell } from "./completion.ts";
export { helpText } from "./help.ts";
export { manPage } from "./man_page.ts";
