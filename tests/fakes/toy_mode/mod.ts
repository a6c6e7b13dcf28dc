/** A fourth mode, as someone would add one: a folder and a line in the registry. It writes its rules into an array. */
export { TOY_MODE, TOY_RULES } from "./mode.ts";
