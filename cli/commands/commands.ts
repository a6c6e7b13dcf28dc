import { checkCommand } from "./check.ts";
import { clusterCommand } from "./cluster.ts";
import type { Command } from "./command.ts";
import { createCompletionCommand } from "./completion.ts";
import { diffCommand } from "./diff.ts";
import { eventsCommand } from "./events.ts";
import { explainCommand } from "./explain.ts";
import { exportCommand } from "./export.ts";
import { flowsCommand } from "./flows.ts";
import { getCommand } from "./get.ts";
import { createInstallCommand } from "./install.ts";
import { kubeconfigCommand } from "./kubeconfig.ts";
import { createManCommand } from "./man.ts";
import { renderCommand } from "./render.ts";
import { runCommand } from "./run.ts";
import { serveCommand } from "./serve.ts";
import { statusCommand } from "./status.ts";
import { topCommand } from "./top.ts";
import { uninstallCommand } from "./uninstall.ts";
import { versionCommand } from "./version.ts";
import { watchCommand } from "./watch.ts";

/** All commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  runCommand,
  checkCommand,
  createInstallCommand(() => COMMANDS),
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
  createCompletionCommand(() => COMMANDS),
  createManCommand(() => COMMANDS),
];
