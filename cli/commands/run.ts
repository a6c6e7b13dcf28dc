import { type Configuration, ipvsDeprecation, RUN } from "../../config/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import { type Clock, errorText, type Logger, searchPath } from "../../platform/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { runWithReloads } from "./reload.ts";
import { inClusterVariables, leaveEnvironment, rights, startNoMorePrograms } from "./privileges.ts";

/** The proxy itself. */
export const runCommand: Command = {
  lasts: true,
  name: RUN,
  summary: "Run the proxy on this node (what happens without a command).",
  arguments: [],
  flags: [],
  examples: [
    {
      line: "sluice --config /etc/sluice/config.yaml",
      does: "with a KubeProxyConfiguration, kube-proxy's own among them",
    },
    { line: "sluice --kubeconfig /etc/sluice/kubeconfig --proxy-mode nftables", does: "with flags" },
    { line: "sluice --source file:services.yaml", does: "services from manifests, without an API server" },
    { line: "sluice --cleanup", does: "remove all rules, Sluice's and kube-proxy's, and end" },
  ],
  startsPrograms: true,
  async start(invocation) {
    const { configuration, flags, logger, clock, signal, plugin, runProgram, lost } = invocation;
    if (configuration.mode === "ipvs" && !configuration.cleanup) {
      logger.warn(ipvsDeprecation(flags.get("config") as string | undefined));
    }
    const controlSocket = await openControlSocket(configuration, flags.has("control-socket"), clock, logger);
    if (!configuration.cleanup && !configuration.initOnly) await lookForOthers(configuration, clock, logger);
    // A run writes no file; only --write-config-to does. Connecting to a unix socket counts as writing to it, though, and
    // there is no giving up of all paths but one.
    if (!isUnixSocket(configuration)) Deno.permissions.revokeSync({ name: "write" });
    const fileLimit = await raiseFileLimit({ clock, signal, logger });
    const { startFamilyWorkers } = await import("../../workers/mod.ts");
    const startFamily = startFamilyWorkers((reason) => lost.abort(new Error(reason)));
    if (!configuration.cleanup && !configuration.initOnly) {
      const { adjustOomScore } = await import("../../backends/host/mod.ts");
      const { createProcessRunner } = await import("../../backends/tools/mod.ts");
      adjustOomScore(createProcessRunner({ clock, path: searchPath() }), logger, configuration.oomScoreAdj);
    }
    startNoMorePrograms();
    const env = inClusterVariables();
    leaveEnvironment(plugin);
    logger.debug("what the isolate on the network may do from now on", { ...rights() });
    const { runProxy } = await import("../../proxy/mod.ts");
    const setAnswers = await answerQuestions(controlSocket, invocation);
    return await runWithReloads(invocation, (changing) =>
      runProxy({
        ...changing,
        flags,
        clock,
        startFamily,
        runProgram,
        env,
        lost: lost.signal,
        onAnswers: setAnswers,
        fileLimit,
        signal,
      }));
  },
};

/**
 * Serves the control socket, where there is one, with the answers of the proxy that runs. Returns what sets them; questions
 * that come before wait for it.
 */
async function answerQuestions(
  listener: Deno.Listener | undefined,
  { clock, logger, signal }: Invocation,
): Promise<(answers: () => Promise<ControlAnswers>) => void> {
  if (listener === undefined) return () => {};
  const first = Promise.withResolvers<void>();
  let current: () => Promise<ControlAnswers>;
  const answers = async () => {
    await first.promise;
    return await current();
  };
  const { serveControlSocket } = await import("../../answers/control/mod.ts");
  serveControlSocket({ listener, answers, clock, logger, signal });
  return (answers) => {
    current = answers;
    first.resolve();
  };
}

/**
 * Raises this process's limit of open files, while it may still start programs. Where that fails, the limit is not known,
 * and the proxy makes do with Linux's common one.
 */
async function raiseFileLimit(
  { clock, signal, logger }: Pick<Invocation, "clock" | "signal" | "logger">,
): Promise<number | undefined> {
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  const { raiseOpenFiles } = await import("../../backends/host/mod.ts");
  try {
    return (await raiseOpenFiles(createProcessRunner({ clock, path: searchPath(), signal }), Deno.pid)).soft;
  } catch (error) {
    logger.info("limit of open files not raised", { error: errorText(error) });
    return undefined;
  }
}

function isUnixSocket({ source }: Configuration): boolean {
  return source.kind === "grpc" && source.address.kind === "unix";
}

/**
 * Looks for other proxies at the ports that they serve: the rules of two undo each other's. kube-proxy is named in the
 * log; it may be about to end.
 * @throws {AnotherSluiceError} where another Sluice serves this network
 */
async function lookForOthers(configuration: Configuration, clock: Clock, logger: Logger): Promise<void> {
  const { findNeighbours, nameOf } = await import("../../observe/mod.ts");
  const neighbours = await findNeighbours(configuration, clock);
  const another = neighbours.find(({ kind }) => kind === "Sluice");
  if (another) {
    const { AnotherSluiceError } = await import("../../answers/control/mod.ts");
    throw new AnotherSluiceError(another.answersOn, undefined);
  }
  const [other] = neighbours;
  if (other === undefined) return;
  logger.warn(`${nameOf(other)} is running on this node; two proxies undo each other's rules, stop it`, {
    answersOn: other.answersOn,
  });
}

/**
 * Opens the control socket, while this process may still write. A proxy does its work without one, too, unless it was
 * asked for by name; by default only root's proxy has one.
 * @throws {AnotherSluiceError} where a Sluice that serves this network answers there
 */
async function openControlSocket(
  configuration: Configuration,
  isAskedFor: boolean,
  clock: Clock,
  logger: Logger,
): Promise<Deno.Listener | undefined> {
  const { controlSocket: path, cleanup, initOnly } = configuration;
  if (path === undefined || cleanup || initOnly || !isAskedFor && Deno.uid() !== 0) return undefined;
  const { thisProcess } = await import("../../answers/control/mod.ts");
  // Its network namespace may be out of reach once the right to write is given up.
  thisProcess();
  const { listenOnControlSocket, SocketInUseError } = await import("../../answers/control/mod.ts");
  try {
    return await listenOnControlSocket(path);
  } catch (error) {
    if (error instanceof SocketInUseError) {
      const { refuseAnother } = await import("../../answers/control/mod.ts");
      const { portsAreFree } = await import("../../observe/mod.ts");
      await refuseAnother(path, clock, { self: thisProcess(), portsAreFree: () => portsAreFree(configuration) });
    }
    if (isAskedFor) throw error;
    logger.warn("there is no control socket for this proxy, which cannot be asked about what it does", {
      error: errorText(error),
    });
    return undefined;
  }
}
