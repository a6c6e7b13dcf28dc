import type { ControlAnswers } from "../../answers/control/mod.ts";
import {
  boolean,
  type Configuration,
  CONFIGURATION_SCOPE,
  DEFAULT_OOM_SCORE,
  flagValue,
  followConfiguration,
  ignoredIn,
  ipvsDeprecation,
  isServer,
  option,
  RUN,
  RUN_FLAGS,
  usesAnyRelay,
} from "../../config/mod.ts";
import { createProcessProblems, type ReportProblems } from "../../core/problems/mod.ts";
import type { Neighbour } from "../../observe/mod.ts";
import type { PodWatch } from "../../core/objects/mod.ts";
import { featuresOn, startProcessFeatures } from "../../features/mod.ts";
import { abortedBy, type Clock, errorText, machineCores } from "../../platform/mod.ts";
import type { ProxyOptions } from "../../node/mod.ts";
import type { KeptState } from "../../sources/mod.ts";
import { type Command, createProcessLogger, type Invocation, toolRunner, UsageError } from "./command.ts";
import { droppedPermissions, dropPermissions, keptEnvironment } from "./privileges.ts";

const ONLY_OWN = option(
  "only-own",
  boolean(),
  "With --cleanup: delete only what no other proxy uses, and only once another proxy serves the same services.",
);

/** `sluice run`: the proxy. */
export const runCommand: Command = {
  lasts: true,
  name: RUN,
  summary: "Run the proxy on this node (the default command).",
  flags: [ONLY_OWN],
  examples: {
    "sluice --config /etc/sluice/config.yaml": "with a KubeProxyConfiguration, such as kube-proxy's own",
    "sluice --kubeconfig /etc/sluice/kubeconfig --proxy-mode nftables": "with flags",
    "sluice --source file:services.yaml": "services from manifests, without an API server",
    "sluice --cleanup": "remove all rules of Sluice and kube-proxy, then exit",
    "sluice --cleanup --only-own": "after the return to another proxy: remove what only Sluice has",
  },
  startsPrograms: true,
  async start(invocation) {
    const { configuration, flags, warnings, logger, clock, runProgram, lost, signal } = invocation;
    if (flags.has(ONLY_OWN.name)) return await removeOwn(invocation);
    const file = flagValue(flags, RUN_FLAGS.config);
    if (configuration.modeDescription.settings.isDeprecated && !configuration.cleanup) {
      logger.warn(ipvsDeprecation(file));
    }
    const processProblems = createProcessProblems();
    const { report } = processProblems;
    report(CONFIGURATION_SCOPE, ignoredIn(file, warnings), { isLogged: true });
    const controlSocket = await openControlSocket(configuration, flags.has("control-socket"), clock, report);
    const isServing = !configuration.cleanup && !configuration.initOnly;
    if (isServing) await checkOtherProxies(invocation);
    if (configuration.cleanup) await refuseWhileRunning(invocation);
    const kept = await openKeptState(configuration, invocation, report);
    // A run opens no more files for writing. But connecting to a unix socket needs the write permission, which cannot be limited to one
    // path after the start.
    const { source } = configuration;
    if (source.kind !== "grpc" || source.addresses.every(({ kind }) => kind !== "unix")) dropPermissions("write");
    const fileLimit = await raiseFileLimit(invocation, report);
    const { relaysOnDemand, startFamilyWorkers } = await import("../../workers/mod.ts");
    const startFamily = startFamilyWorkers((reason) => lost.abort(new Error(reason)));
    if (isServing) await setOomScore(invocation, report);
    dropPermissions("run", "ffi");
    const env = keptEnvironment();
    const { nodeName } = configuration;
    const environment = (name: string) => Deno.env.get(name);
    const processFeatures = isServing
      ? await startProcessFeatures({ nodeName, environment, reportProblems: report, clock, logger })
      : undefined;
    dropPermissions("env");
    logger.debug("dropped permissions of the main isolate", droppedPermissions());
    const { runProxy } = await import("../../node/mod.ts");
    const { createProcessRecord } = await import("../../observe/mod.ts");
    const process = createProcessRecord(clock);
    const onAnswers = await serveAnswers(controlSocket, invocation);
    const withRelays = relaysOnDemand(startFamily);
    const cores = await machineCores();
    const ofProcess = { flags, clock, runProgram, env, lost: lost.signal, cores, fileLimit, kept, process };
    const fixed = { ...ofProcess, processProblems, processFeatures, onAnswers, signal };
    try {
      return await runWithReloads(invocation, report, async (reloadable) => {
        const startFamily = await withRelays(usesAnyRelay(reloadable.configuration));
        return await runProxy({ ...reloadable, ...fixed, startFamily });
      });
    } finally {
      for (const feature of processFeatures?.values() ?? []) await feature.stop();
    }
  },
};

/** `--cleanup --only-own`: deletes the rules that no other proxy takes over. */
async function removeOwn(invocation: Invocation): Promise<number> {
  const { configuration, clock, signal, print } = invocation;
  if (!configuration.cleanup) throw new UsageError("--only-own needs --cleanup");
  await refuseWhileRunning(invocation);
  const { removeOwnRules } = await import("../../backends/mod.ts");
  const deleted = await removeOwnRules(await toolRunner({ clock, signal }));
  print(
    deleted.length > 0
      ? `deleted ${deleted.join(" and ")}\n`
      : "nothing to delete: only nftables mode has tables of its own; other rules have kube-proxy's names, and the next proxy takes them over\n",
  );
  return 0;
}

/** Throws if a Sluice runs here: it would write the rules again that a cleanup removes. */
async function refuseWhileRunning(invocation: Invocation): Promise<void> {
  const { findNeighbours } = await import("../../observe/mod.ts");
  const running = await anotherSluice(await findNeighbours(invocation.configuration, invocation.clock), invocation);
  if (running) throw new Error(`sluice is still running: it answers on ${running.answersOn} (stop it first)`);
}

/**
 * Looks for other proxies on the ports that this one serves: two proxies overwrite each other's rules. kube-proxy is only
 * logged, since it may be about to stop, and so is a program without root's rights, which could answer as a Sluice does to keep
 * this one from serving.
 * @throws {AnotherSluiceError} if another Sluice serves this network
 */
async function checkOtherProxies(invocation: Invocation): Promise<void> {
  const { configuration, clock, logger } = invocation;
  const { findNeighbours, nameOf } = await import("../../observe/mod.ts");
  const neighbours = await findNeighbours(configuration, clock);
  const another = await anotherSluice(neighbours, invocation);
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

/** The first neighbour that is a Sluice of root or of this user. */
async function anotherSluice(
  neighbours: readonly Neighbour[],
  { clock, signal }: Invocation,
): Promise<Neighbour | undefined> {
  const found = neighbours.filter(({ kind }) => kind === "Sluice");
  if (found.length === 0) return undefined;
  const { trustedPorts } = await import("../../backends/preflight/mod.ts");
  const trusted = await trustedPorts(await toolRunner({ clock, signal }), Deno.uid());
  return found.find(({ port }) => trusted.has(port));
}

/**
 * Raises this process's limit of open files and returns it; undefined if that fails, in which case the proxy assumes
 * Linux's default (node/proxy_options.ts). Must run before the run permission is dropped.
 */
async function raiseFileLimit(
  { configuration: { nodeName, modeDescription }, clock, signal, logger }: Invocation,
  onProblems: ReportProblems,
): Promise<number | undefined> {
  const { ENOUGH_FOR_RELAY, judgeOpenFiles, raiseOpenFiles } = await import("../../backends/host/mod.ts");
  const runner = await toolRunner({ clock, signal });
  const enough = modeDescription.relay === "services" ? ENOUGH_FOR_RELAY : undefined;
  const limit = await raiseOpenFiles(runner, Deno.pid, enough).catch((error) => {
    logger.info("limit of open files not raised", { error: errorText(error) });
    return undefined;
  });
  const { code, message } = judgeOpenFiles(limit);
  if (code !== undefined) onProblems("open files", [{ code, subject: `Node ${nodeName}`, detail: message }]);
  return limit?.soft;
}

/** Starts setting the OOM score; does not wait for the result. A failure is a problem only if the score was configured. */
async function setOomScore({ configuration, clock, logger }: Invocation, onProblems: ReportProblems): Promise<void> {
  const { adjustOomScore } = await import("../../backends/host/mod.ts");
  const { nodeName, oomScoreAdj: wanted } = configuration;
  adjustOomScore(await toolRunner({ clock }), wanted).then((reason) => {
    if (reason === undefined) return;
    if (wanted === DEFAULT_OOM_SCORE) {
      return logger.info("oom_score_adj not set, keeping the current one", { wanted, reason });
    }
    const subject = `Node ${nodeName}`, detail = `${wanted}: ${reason}`;
    onProblems("oom score", [{ code: "oom-score-refused", subject, detail }]);
  });
}

/**
 * Opens the control socket; must run before the write permission is dropped. The proxy works without one unless
 * `isRequired` (its flag was given). By default only root's proxy has one.
 * @throws {AnotherSluiceError} if the Sluice listening there serves the same network
 */
async function openControlSocket(
  configuration: Configuration,
  isRequired: boolean,
  clock: Clock,
  onProblems: ReportProblems,
): Promise<Deno.Listener | undefined> {
  const { controlSocket: path, cleanup, initOnly } = configuration;
  if (path === undefined || cleanup || initOnly || !isRequired && Deno.uid() !== 0) return undefined;
  const { listenOnControlSocket, refuseAnother, SocketInUseError, thisProcess } = await import(
    "../../answers/control/mod.ts"
  );
  // Reads the network namespace, which may be inaccessible once the write permission is dropped.
  thisProcess();
  try {
    return await listenOnControlSocket(path);
  } catch (error) {
    if (error instanceof SocketInUseError) {
      const { portsAreFree } = await import("../../observe/mod.ts");
      await refuseAnother(path, clock, { self: thisProcess(), portsAreFree: () => portsAreFree(configuration) });
    }
    if (isRequired) throw error;
    onProblems("control socket", [{ code: "control-socket-closed", subject: path, detail: errorText(error) }]);
    return undefined;
  }
}

/** Serves the control socket; requests wait until the returned function sets the answers. */
async function serveAnswers(
  listener: Deno.Listener | undefined,
  { clock, logger, signal }: Pick<Invocation, "clock" | "logger" | "signal">,
): Promise<(answers: () => Promise<ControlAnswers>) => void> {
  if (listener === undefined) return () => {};
  const first = Promise.withResolvers<() => Promise<ControlAnswers>>();
  let current = first.promise;
  const { serveControlSocket } = await import("../../answers/control/mod.ts");
  serveControlSocket({ listener, answers: async () => await (await current)(), clock, logger, signal });
  return (answers) => {
    first.resolve(answers);
    current = Promise.resolve(answers);
  };
}

/**
 * Opens the file with the cached state, and starts to look for rules in the kernel and for pods in the container runtime; must
 * run before the permissions to write files and to start programs are dropped. The proxy works without the file; a failure is
 * reported as a problem.
 */
export async function openKeptState(
  configuration: Configuration,
  { clock }: Pick<Invocation, "clock">,
  onProblems: ReportProblems,
): Promise<KeptState | undefined> {
  const { stateDirectory, runtimeSocket, source, modeDescription, cleanup, initOnly } = configuration;
  if (stateDirectory === undefined || !isServer(source) || cleanup || initOnly) return undefined;
  const { openStateDirectory, UntrustedStateError } = await import("../../sources/kept/mod.ts");
  const { isKernelEmpty, MODE_DESCRIPTIONS } = await import("../../backends/mod.ts");
  try {
    const file = openStateDirectory(stateDirectory);
    const featureFiles = new Map(
      featuresOn(configuration, modeDescription).filter((feature) => feature.source !== undefined)
        .map(({ name }) => [name, openStateDirectory(stateDirectory, name)]),
    );
    const runner = await toolRunner({ clock });
    const pods = runtimeSocket === undefined ? undefined : await watchPods(runtimeSocket, onProblems);
    return { file, featureFiles, isKernelEmpty: isKernelEmpty(MODE_DESCRIPTIONS, runner), pods };
  } catch (error) {
    const code = error instanceof UntrustedStateError ? "state-untrusted" : "state-not-kept";
    onProblems("state directory", [{ code, subject: stateDirectory, detail: errorText(error) }]);
    return undefined;
  }
}

/** Starts to watch the pods of the container runtime; undefined, and a problem, if that is impossible. */
async function watchPods(socket: string, onProblems: ReportProblems): Promise<PodWatch | undefined> {
  const { startRuntimeWatch } = await import("../../workers/mod.ts");
  try {
    return startRuntimeWatch(socket);
  } catch (error) {
    onProblems("container runtime", [{ code: "runtime-unreachable", subject: socket, detail: errorText(error) }]);
    return undefined;
  }
}

/**
 * Runs the proxy, and restarts it in place after each valid change of its configuration file (kube-proxy exits instead).
 * Rules and connections stay in between. `onProblems` receives an invalid file. Resolves with the exit status of the last run.
 */
async function runWithReloads(
  { configuration, flags, logger, logging, clock, signal, reread }: Invocation,
  onProblems: ReportProblems,
  run: (reloadable: Pick<ProxyOptions, "configuration" | "logger" | "logging" | "replaced">) => Promise<number>,
): Promise<number> {
  const path = flagValue(flags, RUN_FLAGS.config);
  if (!path || configuration.cleanup || configuration.initOnly) return await run({ configuration, logger, logging });
  const ended = new AbortController();
  const following = abortedBy(signal, ended.signal).signal;
  const nextConfiguration = followConfiguration({ path, read: reread, clock, logger, onProblems, signal: following });
  try {
    for (let current = { configuration, logger, logging };;) {
      const replaced = new AbortController();
      const next = nextConfiguration(current.configuration).then((changed) => {
        if (changed) replaced.abort(new Error("the configuration file changed"));
        return changed;
      });
      const status = await run({ ...current, replaced: replaced.signal });
      if (!replaced.signal.aborted || signal.aborted) return status;
      const configuration = (await next)!;
      current = { configuration, ...createProcessLogger(configuration) };
      current.logger.info("configuration file changed, applying it", { file: path });
    }
  } finally {
    ended.abort();
  }
}
