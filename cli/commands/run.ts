import { type Configuration, ipvsDeprecation, RUN, usesAnyRelay } from "../../config/mod.ts";
import { createProcessProblems, type ReportProblems } from "../../core/problems/mod.ts";
import { type Clock, errorText, type Logger, searchPath } from "../../platform/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { openControlSocket, serveAnswers } from "./control_socket.ts";
import { dropEnvPermission, droppedPermissions, dropRunPermission, inClusterEnvironment } from "./privileges.ts";
import { runWithReloads } from "./reload.ts";
import { openKeptState } from "./kept_state.ts";
import { openTelemetry } from "./telemetry.ts";

/** `sluice run`: the proxy. */
export const runCommand: Command = {
  lasts: true,
  name: RUN,
  summary: "Run the proxy on this node (the default command).",
  arguments: [],
  flags: [],
  examples: [
    {
      line: "sluice --config /etc/sluice/config.yaml",
      does: "with a KubeProxyConfiguration, such as kube-proxy's own",
    },
    { line: "sluice --kubeconfig /etc/sluice/kubeconfig --proxy-mode nftables", does: "with flags" },
    { line: "sluice --source file:services.yaml", does: "services from manifests, without an API server" },
    { line: "sluice --cleanup", does: "remove all rules of Sluice and kube-proxy, then exit" },
  ],
  startsPrograms: true,
  async start(invocation) {
    const { configuration, flags, logger, clock, plugin, runProgram, lost, signal } = invocation;
    if (configuration.modeDescription.settings.isDeprecated && !configuration.cleanup) {
      logger.warn(ipvsDeprecation(flags.get("config") as string | undefined));
    }
    const processProblems = createProcessProblems();
    const { report } = processProblems;
    const controlSocket = await openControlSocket(configuration, flags.has("control-socket"), clock, report);
    const isServing = !configuration.cleanup && !configuration.initOnly;
    if (isServing) await checkOtherProxies(configuration, clock, logger);
    const kept = await openKeptState(configuration, invocation, report);
    // A run opens no more files for writing. But connecting to a unix socket needs the write permission, which cannot be limited to one
    // path after the start.
    if (!usesUnixSocket(configuration)) Deno.permissions.revokeSync({ name: "write" });
    const fileLimit = await raiseFileLimit(invocation, report);
    const { relaysOnDemand, startFamilyWorkers } = await import("../../workers/mod.ts");
    const startFamily = startFamilyWorkers((reason) => lost.abort(new Error(reason)));
    if (isServing) await setOomScore(invocation);
    dropRunPermission();
    const env = inClusterEnvironment();
    const { nodeName } = configuration;
    const ofNode = { "service.name": "sluice", "service.instance.id": nodeName, "k8s.node.name": nodeName };
    const telemetry = isServing ? await openTelemetry(["metrics", "traces"], ofNode, invocation, report) : undefined;
    dropEnvPermission(plugin);
    logger.debug("dropped permissions of the main isolate", { ...droppedPermissions() });
    const { runProxy } = await import("../../proxy/mod.ts");
    const onAnswers = await serveAnswers(controlSocket, invocation);
    const withRelays = relaysOnDemand(startFamily);
    const ofProcess = { flags, clock, runProgram, env, lost: lost.signal, fileLimit, kept, processProblems, telemetry };
    const fixed = { ...ofProcess, onAnswers, signal };
    try {
      return await runWithReloads(invocation, report, async (reloadable) => {
        const startFamily = await withRelays(usesAnyRelay(reloadable.configuration));
        return await runProxy({ ...reloadable, ...fixed, startFamily });
      });
    } finally {
      await telemetry?.stop();
    }
  },
};

/**
 * Looks for other proxies on the ports that this one serves: two proxies overwrite each other's rules. kube-proxy is only
 * logged, since it may be about to stop.
 * @throws {AnotherSluiceError} if another Sluice serves this network
 */
async function checkOtherProxies(configuration: Configuration, clock: Clock, logger: Logger): Promise<void> {
  const { findNeighbours, nameOf } = await import("../../observe/mod.ts");
  const neighbours = await findNeighbours(configuration, clock);
  const another = neighbours.find(({ kind }) => kind === "Sluice");
  if (another) {
    const { AnotherSluiceError } = await import("../../answers/control/mod.ts");
    throw new AnotherSluiceError(another.answersOn, undefined);
  }
  const [other] = neighbours;
  if (other === undefined) return;
  logger.warn("another service proxy runs on this node and overwrites the same rules; stop it", {
    proxy: nameOf(other),
    answersOn: other.answersOn,
  });
}

/**
 * Raises this process's limit of open files and returns it; undefined if that fails, in which case the proxy assumes
 * Linux's default (proxy/file_shares.ts). Must run before the run permission is dropped.
 */
async function raiseFileLimit(
  { configuration: { nodeName, modeDescription }, clock, signal, logger }: Invocation,
  onProblems: ReportProblems,
): Promise<number | undefined> {
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  const { ENOUGH_FOR_RELAY, judgeOpenFiles, raiseOpenFiles } = await import("../../backends/host/mod.ts");
  const runner = createProcessRunner({ clock, path: searchPath(), signal });
  const enough = modeDescription.relay === "services" ? ENOUGH_FOR_RELAY : undefined;
  const limit = await raiseOpenFiles(runner, Deno.pid, enough).catch((error) => {
    logger.info("limit of open files not raised", { error: errorText(error) });
    return undefined;
  });
  const { code, message } = judgeOpenFiles(limit);
  if (code !== undefined) onProblems("open files", [{ code, subject: `Node ${nodeName}`, detail: message }]);
  return limit?.soft;
}

/** Starts setting the OOM score; does not wait for the result. */
async function setOomScore({ configuration, clock, logger }: Invocation): Promise<void> {
  const { adjustOomScore } = await import("../../backends/host/mod.ts");
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  adjustOomScore(createProcessRunner({ clock, path: searchPath() }), logger, configuration.oomScoreAdj);
}

function usesUnixSocket({ source }: Configuration): boolean {
  return source.kind === "grpc" && source.addresses.some(({ kind }) => kind === "unix");
}
