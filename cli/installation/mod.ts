/**
 * Installs and removes the service's files on a node.
 *
 *   wanted.ts                the configuration and command line that the flags result in
 *   files.ts                 the files of an installation, with the systemd unit or OpenRC script
 *   installation.ts          writes and removes them
 *
 * In: contents of the files. Out: the action taken for each. May touch: files below a root folder.
 */
export {
  CONFIGURATION,
  type InstalledFile,
  isSystemdRunning,
  OPENRC_LOG,
  PROGRAM,
  SCRIPT,
  serviceManagerIn,
  textFile,
  UNIT,
} from "./files.ts";
export * from "./installation.ts";
export { installedService, type Wanted, wantedInstallation } from "./wanted.ts";
