/** A fourth mode, as someone would add one: a folder and a line in the registry. Its rules are lines in a toy kernel. */
export { createToyKernel } from "./kernel.ts";
export { TOY_MODE } from "./mode.ts";
