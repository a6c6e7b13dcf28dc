/**
 * The files of an installation: which are written, kept or removed, and the record by which `uninstall` takes them back.
 */
export { flagsBesideFile, withFlags } from "./edited_configuration.ts";
export { CONFIGURATION, filesOf, PROGRAM, UNIT, unitWith } from "./files.ts";
export { install, leftBehind, type Step, uninstall } from "./installation.ts";
export { RECORD } from "./record.ts";
