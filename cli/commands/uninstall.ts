import { boolean, option } from "../../config/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { DRY_RUN_FLAG, requireRoot, ROOT_FLAG, rootOf, stepsText } from "./install.ts";

/** `sluice uninstall`. */
export const uninstallCommand: Command = {
  name: "uninstall",
  summary: "Remove installed files, except those edited since; with --cleanup, the rules too.",
  arguments: [],
  flags: [
    ROOT_FLAG,
    DRY_RUN_FLAG,
    option("now", boolean(), "Also stop and disable the service."),
    option("all", boolean(), "Also remove edited files."),
  ],
  withoutSource: true,
  installed: { part: "socket", unless: ["root"] },
  examples: [
    {
      line: "sluice uninstall --now --cleanup",
      does: "remove the service, its files and its rules; nothing serves the cluster's services then",
    },
    { line: "sluice uninstall --dry-run", does: "show which files would be removed and which kept" },
  ],
  startsPrograms: true,
  async start(invocation) {
    const { flags, print, configuration } = invocation;
    const root = rootOf(invocation);
    const dryRun = flags.get("dry-run") === true;
    requireRoot(root, dryRun);
    const actsHere = root === "" && !dryRun;
    if (actsHere && flags.get("now") === true) await stopService(invocation);
    if (actsHere && await isRunning(configuration.controlSocket)) {
      const { serviceHere } = await import("./service.ts");
      const how = serviceHere(invocation) === undefined || flags.get("now") === true
        ? "stop it first: it does not run as a service of systemd or OpenRC"
        : "sluice uninstall --now stops its service first";
      throw new Error(`the proxy is still running (${how})`);
    }
    const { leftBehind, uninstall } = await import("../installation/mod.ts");
    const steps = await uninstall({ root, dryRun, all: flags.get("all") === true });
    print(stepsText(steps, root, dryRun));
    if (steps.some(({ decision }) => decision === "keep")) {
      print("Edited files are kept; --all removes them too.\n");
    }
    const left = dryRun ? [] : leftBehind(root);
    if (left.length > 0) print(`Remaining files: ${left.join(", ")}\n`);
    if (!actsHere) return 0;
    if (!configuration.cleanup) {
      print(
        "The rules stay in the kernel and keep serving the last known state. sluice --cleanup or starting kube-proxy removes them.\n",
      );
      return 0;
    }
    const status = await removeRules(invocation);
    if (status === 0) {
      print("Rules removed. Nothing serves the cluster's services on this node until another proxy starts.\n");
    }
    return status;
  },
};

async function isRunning(controlSocket: string | undefined): Promise<boolean> {
  if (controlSocket === undefined) return false;
  const { connectToProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    await connectToProxy(controlSocket);
    return true;
  } catch (error) {
    return !(error instanceof NoProxyError);
  }
}

/** Stops and disables the service; without a service manager there is nothing to disable. */
async function stopService(invocation: Invocation): Promise<void> {
  const { serviceHere } = await import("./service.ts");
  await serviceHere(invocation)?.stop();
}

async function removeRules({ configuration, logger, logging, clock, signal }: Invocation): Promise<number> {
  const { runProxy } = await import("../../proxy/mod.ts");
  const { startFamilyWorkers } = await import("../../workers/mod.ts");
  return await runProxy({
    configuration,
    logger,
    logging,
    clock,
    signal,
    startFamily: startFamilyWorkers((reason) => logger.error(reason)),
  });
}
