/**
 * Help, man page and shell completions, generated from the commands' specs and the table of flags.
 *
 * In: specs. Out: text. May touch: nothing.
 */
export { completionScript, type Shell } from "./completion.ts";
export { helpText, manPage } from "./pages.ts";
