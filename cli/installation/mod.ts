/**
 * Installs and removes the service's files on a node.
 *
 *   wanted.ts                what flags make of the installed configuration and command line
 *   edited_configuration.ts  flags written into a configuration file
 *   service_files.ts         the systemd unit or OpenRC script
 *   files.ts                 the files of an installation
 *   installation.ts          writes and removes them
 *   record.ts                what the last installation wrote
 *   disk.ts                  hashes and atomic writes
 *
 * In: contents of the files. Out: what was done with each. May touch: files below a root folder.
 */
export { CONFIGURATION, filesOf, PROGRAM } from "./files.ts";
export { install, leftBehind, type Step, uninstall } from "./installation.ts";
export { type InstallationRecord, readRecord, RECORD } from "./record.ts";
export { isSystemdRunning, OPENRC_LOG, SCRIPT, type ServiceManager, serviceManagerIn, UNIT } from "./service_files.ts";
export { installedService, type Wanted, wantedInstallation } from "./wanted.ts";
