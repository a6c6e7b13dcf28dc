/**
 * The commands of the command line, one file each.
 *
 * In: arguments. Out: text and an exit status. May touch: whatever its command needs; main.ts gives up the rest.
 */
export { COMMANDS } from "./commands.ts";
export { createProcessLogger } from "./logging.ts";
export { credentialPlugin, startCredentialPlugin, startNoMorePrograms } from "./privileges.ts";
