/**
 * Installs and removes the service's files on a node.
 *
 * In: contents of the files. Out: what was done with each. May touch: files below a root folder.
 */
export { flagsBesideFile, withFlags } from "./edited_configuration.ts";
export { CONFIGURATION, filesOf, PROGRAM, UNIT, unitWith } from "./files.ts";
export { install, leftBehind, type Step, uninstall } from "./installation.ts";
export { RECORD } from "./record.ts";
