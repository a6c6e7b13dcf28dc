import { boolean, option } from "../../config/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { DRY_RUN_FLAG, requireRoot, ROOT_FLAG, rootOf, stepsText } from "./install.ts";

/** Takes the proxy off this node. */
export const uninstallCommand: Command = {
  name: "uninstall",
  summary: "Remove what install wrote and nobody changed since; with --cleanup, the rules as well.",
  arguments: [],
  flags: [
    ROOT_FLAG,
    DRY_RUN_FLAG,
    option("now", boolean(), "Stop the service, too, and let it not start again."),
    option("all", boolean(), "Remove what was changed since, too."),
  ],
  examples: [
    {
      line: "sluice uninstall --now --cleanup",
      does: "the service, its files and its rules; services are not served then",
    },
    { line: "sluice uninstall --dry-run", does: "what would go, and what would stay" },
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
      throw new Error("the proxy still runs: sluice uninstall --now stops its service, and then removes it");
    }
    const { leftBehind, uninstall } = await import("../installation/mod.ts");
    const steps = await uninstall({ root, dryRun, all: flags.get("all") === true });
    print(stepsText(steps, root, dryRun));
    if (steps.some(({ decision }) => decision === "keep")) {
      print("What was changed since it was installed stays; --all removes it, too.\n");
    }
    const left = dryRun ? [] : leftBehind(root);
    if (left.length > 0) print(`Left there: ${left.join(", ")}\n`);
    if (!actsHere) return 0;
    if (!configuration.cleanup) {
      print(
        "The rules stay in the kernel, and serve what they served last: sluice --cleanup, or kube-proxy's start, ends that.\n",
      );
      return 0;
    }
    const status = await removeRules(invocation);
    if (status === 0) print("The rules are gone: this node serves no services until another proxy starts.\n");
    return status;
  },
};

async function isRunning(controlSocket: string | undefined): Promise<boolean> {
  if (controlSocket === undefined) return false;
  const { askProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    await askProxy(controlSocket);
    return true;
  } catch (error) {
    return !(error instanceof NoProxyError);
  }
}

async function stopService({ clock, signal }: Invocation): Promise<void> {
  const { runSystemctl } = await import("./service.ts");
  await runSystemctl(["disable", "--now", "sluice"], { clock, signal });
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
