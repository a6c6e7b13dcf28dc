/**
 * The commands, one file each.
 *
 * In: arguments. Out: text and an exit status. May touch: anything its command needs; main.ts drops the other permissions.
 */
export { COMMANDS } from "./commands.ts";
export { createProcessLogger } from "./logging.ts";
export { argumentsUnder, programNames } from "./plugin.ts";
export { credentialPlugin, dropRunPermission, startCredentialPlugin } from "./privileges.ts";
