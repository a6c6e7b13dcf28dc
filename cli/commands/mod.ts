/**
 * The commands: one file for each, or for those that share most of their code. A command loads what it needs when it starts.
 *
 *   command.ts         what a command is, and helpers that commands share
 *   privileges.ts      permissions that a command drops, and workers that keep them
 *   service.ts         the installed service, for install, uninstall and status
 *
 * In: arguments. Out: text and an exit status. May touch: anything its command needs; main.ts drops the other permissions.
 */
import { completionCommand, manCommand, versionCommand } from "./about.ts";
import { checkCommand } from "./check.ts";
import { clusterCommand } from "./cluster.ts";
import type { Command } from "./command.ts";
import { eventsCommand } from "./events.ts";
import { explainCommand } from "./explain.ts";
import { exportCommand, watchCommand } from "./watch.ts";
import { flowsCommand } from "./flows.ts";
import { getCommand } from "./get.ts";
import { installCommand, uninstallCommand } from "./install.ts";
import { kubeconfigCommand } from "./kubeconfig.ts";
import { diffCommand, renderCommand } from "./rules.ts";
import { runCommand } from "./run.ts";
import { serveCommand } from "./serve.ts";
import { statusCommand, topCommand } from "./status.ts";
export { argumentsUnder, contextOf, createProcessLogger, programNames } from "./command.ts";
export { dropPermissions, startCredentialPlugin } from "./privileges.ts";

/** All commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  runCommand,
  checkCommand,
  installCommand,
  uninstallCommand,
  kubeconfigCommand,
  statusCommand,
  topCommand,
  eventsCommand,
  flowsCommand,
  explainCommand,
  getCommand,
  renderCommand,
  diffCommand,
  clusterCommand,
  serveCommand,
  exportCommand,
  watchCommand,
  versionCommand,
  completionCommand,
  manCommand,
];
