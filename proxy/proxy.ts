import { abortedBy, errorText, FAMILIES, type Family } from "../platform/mod.ts";
import {
  balanceOptions,
  type Configuration,
  countsTraffic,
  isFeatureEnabled,
  isServer,
  nodePortPrefixes,
  usesAnyRelay,
  watchedKinds,
} from "../config/mod.ts";
import type { ControlAnswers } from "../answers/control/mod.ts";
import { startCanaries } from "./canaries.ts";
import { createChangeLoop } from "./change_loop.ts";
import type { Failover } from "./failover.ts";
import { notifyObservers } from "./family_observers.ts";
import { runCleanup, runInit } from "./family_task.ts";
import { changeFigures, packetCountsOf, relayFiguresOf } from "./figures.ts";
import { shareFiles } from "./file_shares.ts";
import { writeNodeCondition } from "./node_condition.ts";
import { createNodeWatch } from "./node_watch.ts";
import {
  addressesWithin,
  createChangeFeed,
  createDriftWatch,
  createEventRecorder,
  createMetrics,
  createNodeEvents,
  createProxyHealth,
  createServiceHealth,
  createSourceLink,
  createStatusRecorder,
  findNeighbours,
  type ProxyHealth,
  startOperatorServers,
} from "../observe/mod.ts";
import { createConnectionLimits } from "../platform/http/mod.ts";
import { createProblemBoard, type ReportProblems } from "../core/problems/mod.ts";
import { createBalanceReports, createHealthCheckPlanner } from "../core/planning/mod.ts";
import type { ProxyOptions } from "./proxy_options.ts";
import type { RunningProxy } from "./running_answers.ts";
import { type ServedFamily, type ServedFamilyListener, serveFamily } from "./served_family.ts";
import { openSource } from "../sources/mod.ts";
import { createTracking, type Tracking } from "../core/tracking/mod.ts";

/** Runs the proxy until its signal is aborted, or the one-time task that the configuration selects. Resolves with the exit status. */
export async function runProxy(options: ProxyOptions): Promise<number> {
  if (options.configuration.cleanup) return await runCleanup(options);
  if (options.configuration.initOnly) return await runInit(options);
  return await serve(options);
}

/** Connects the source through tracking and planning to both families, with everything that observes them. */
async function serve(options: ProxyOptions): Promise<number> {
  const { configuration, logger, clock } = options;
  const { nodeName, mode, modeDescription } = configuration;
  const ending = abortedBy(options.signal, options.lost, options.replaced);
  const { signal } = ending;
  const startedAtMs = clock.now();
  const recorder = createStatusRecorder();
  const feed = createChangeFeed(clock);
  const problems = createProblemBoard(clock, logger, feed.problemChanged);
  const link = createSourceLink(clock, (link) => {
    feed.linkChanged(link);
    nodeEvents?.link(link);
  });
  // Only the API server has this node's Node object; other sources serve nodes without a cluster or omit the pod CIDR.
  const awaitsPodCIDR = configuration.source.kind === "kube" && configuration.detectLocalMode === "NodeCIDR";
  const tracking = createTracking({
    ...trackingOptions(options, awaitsPodCIDR),
    onSynced: () => nodeWatch.onSynced(),
    onChange: () => scheduleChanges(),
    onProblems: problems.report,
  });
  const reportWithEvents: ReportProblems = (scope, list, options) => {
    problems.report(scope, list, options);
    list.forEach((problem) => nodeEvents?.problem(problem));
  };
  const { syncPeriodMs } = configuration;
  const health = createProxyHealth({ clock, syncPeriodMs, onProblems: reportWithEvents, signal });
  const traffic = countsTraffic(configuration)
    ? await (await import("./traffic.ts")).startTraffic({ configuration, families: () => families, clock })
    : undefined;
  const failover = configuration.failover.endpointFailureDetection
    ? (await import("./failover.ts")).createFailover({
      configuration,
      clock,
      onProblems: problems.report,
      onProblem: (service, problem) => nodeEvents?.serviceProblem(service, problem, "Probe"),
      signal,
    })
    : undefined;
  const metrics = createMetrics({
    mode: modeDescription,
    now: () => clock.now(),
    read: () => changeFigures(tracking, families),
    featureGates: configuration.featureGates,
    fileLimit: options.fileLimit,
    readPacketCounts: () => packetCountsOf(families),
    readFailures: failover && (() => failover.figures()),
    readRelayFigures: usesAnyRelay(configuration) ? () => relayFiguresOf(families) : undefined,
    addTraffic: traffic?.addMetrics,
    readProblems: problems.counts,
    readLink: isServer(configuration.source) ? link.current : undefined,
    readServers: () => source.servers?.() ?? [],
    readCanaries: configuration.canary.enabled ? () => canaries.status() : undefined,
  });
  options.telemetry?.attach(metrics, startedAtMs);
  const traces = options.telemetry?.traceSyncs(mode);
  const files = shareFiles(options.fileLimit);
  const limits = createConnectionLimits({ clock, max: files.connections });
  const serviceHealth = createServiceHealth({
    addresses: () => healthCheckAddresses(configuration, tracking),
    isHealthy: () => isServing(health),
    onFailure: (service, port, why) => nodeEvents?.healthCheckFailed(service, port, why),
    onProblems: problems.report,
    mostListeners: files.listeners,
    limits,
    clock,
    logger,
    signal,
  });
  const { source, events, ownNode, otherNodes, close } = await openSource({
    ...options,
    onApiRequest: metrics.apiRequest,
    onLink: link.report,
    site: {
      memoryFile: options.kept?.siteFile,
      onSite(site) {
        link.enterSite(site);
        nodeEvents?.site(site);
      },
    },
    kept: options.kept && {
      ...options.kept,
      objects: tracking.objects,
      onServing: link.serveKept,
      onNotServed: configuration.failover.resetGoneConnections
        ? (objects) => families.forEach((family) => family.noteEarlier(objects))
        : undefined,
    },
  });
  const { answers, statusPage } = lazyAnswers(() => (
    { configuration, tracking, families, traffic, health, recorder, problems, feed, link, canaries, clock, startedAtMs }
  ));
  const observed = { configuration, health, metrics, problems, startedAtMs, statusPage, limits };
  await startOperatorServers({ ...observed, flags: options.flags ?? new Map(), clock, logger, signal });
  const recordEvents = events && createEventRecorder({ ...events, nodeName, clock, logger, signal });
  const isInSite = configuration.site.name !== "";
  const nodeEvents = recordEvents && createNodeEvents({ recorder: recordEvents, mode, isInSite, clock });
  options.processProblems?.attach(reportWithEvents);
  const neighbours = () => findNeighbours(configuration, clock);
  const driftWatch = createDriftWatch({ findNeighbours: neighbours, onProblems: problems.report, logger });
  const onNoneSupported = (reasons: string) =>
    ending.abort(new Error(`this host can serve neither IP family (${reasons})`));
  const canaries = await startCanaries({
    ...{ configuration, tracking, families: () => families, health, nodeEvents: () => nodeEvents },
    ...{ onProblems: reportWithEvents, clock, logger, signal },
  });
  const observers = {
    health,
    metrics,
    recorder,
    problems,
    feed,
    nodeEvents,
    driftWatch,
    traffic,
    canaries,
    traces,
    logger,
  };
  const listener = {
    ...notifyObservers({ ...observers, onNoneSupported }),
    onHealthChecks: serviceHealth.inEffect,
    onProblems: problems.report,
  };
  const families = serveFamilies(tracking, options, listener, failover);
  const condition = await writeNodeCondition({
    ...{ configuration, api: ownNode, read: health.status, nodeUid: tracking.node.uid },
    ...{ onProblems: problems.report, clock, logger, signal },
  });
  const onMissing = (message: string) => nodeEvents?.nodeMissing(message);
  const node = { nodeName, node: tracking.node, awaitsPodCIDR, otherNodes };
  const nodeWatch = createNodeWatch({ ...node, health, problems, onMissing, clock, logger, signal });
  const scheduleChanges = createChangeLoop({
    tracking,
    families,
    healthChecks: createHealthCheckPlanner({ nodeName, tracking }),
    balanceReports: createBalanceReports({
      tracking,
      balance: balanceOptions(configuration),
      onProblems: problems.report,
      onProblem: (service, problem) => nodeEvents?.serviceProblem(service, problem, "Balance"),
    }),
    serviceHealth,
    onNodeChange: nodeWatch.onChange,
    onPlanned: canaries.update,
    onStarted() {
      logger.info("caches synced", { mode, node: nodeName });
      failover?.start(families);
    },
    clock,
  });

  options.onAnswers?.(answers);
  logger.info("starting", { mode, node: nodeName, source: configuration.source.kind });
  try {
    await source.run(tracking, signal);
    return exitStatus(options, signal);
  } finally {
    const stopped = options.replaced?.aborted && !options.signal.aborted ? undefined : condition?.stopped();
    traffic?.stop();
    const keepWorker = options.replaced?.aborted && !options.signal.aborted;
    await Promise.all([stopped, ...families.map((family) => family.stop({ keepWorker }))]);
    close();
  }
}

function exitStatus({ signal, replaced, logger }: ProxyOptions, { reason }: AbortSignal): 0 | 1 {
  if (signal.aborted || replaced?.aborted) return 0;
  logger.error("exiting", { error: errorText(reason) });
  return 1;
}

/** Whether the proxy keeps up, and packets are not known to have stopped. */
function isServing(health: ProxyHealth): boolean {
  const { healthy, packets } = health.status();
  return healthy && packets?.flow !== false;
}

function trackingOptions({ configuration, clock }: ProxyOptions, awaitsPodCIDR: boolean) {
  const { nodeName, bindAddress, featureGates } = configuration, kinds = watchedKinds(configuration);
  const externalIPs = isFeatureEnabled("AllowServiceExternalIPs", featureGates);
  return { kinds, nodeName, bindAddress, awaitsPodCIDR, externalIPs, clock };
}

function serveFamilies(
  tracking: Tracking,
  options: ProxyOptions,
  listener: ServedFamilyListener,
  failover: Failover | undefined,
) {
  const families: readonly ServedFamily[] = FAMILIES.map((family) => {
    const otherHasServicePorts = () => families.some((other) => other.family !== family && other.hasServicePorts());
    const unreachable = failover && (() => failover.unreachable(family));
    return serveFamily(family, tracking, options, listener, otherHasServicePorts, unreachable);
  });
  return families;
}

/** Returns the proxy's answers and its status page, whose code is loaded with the first request. */
function lazyAnswers(proxy: () => RunningProxy) {
  let loaded: Promise<ControlAnswers> | undefined;
  const load = async () => {
    const { answersOfProxy } = await import("./running_answers.ts");
    return answersOfProxy(proxy());
  };
  const answers = () => loaded ??= load();
  const statusPage = async () => {
    const { createStatusPage } = await import("../answers/page/mod.ts");
    return await createStatusPage(await answers());
  };
  return { answers, statusPage };
}

const ANY: Readonly<Record<Family, string>> = { IPv4: "0.0.0.0/0", IPv6: "::/0" };

/** Returns the addresses of health check node ports, the same as for node ports; undefined means all. */
function healthCheckAddresses(configuration: Configuration, tracking: Tracking): readonly string[] | undefined {
  if (configuration.nodePortAddresses.length === 0) return undefined;
  const node = tracking.node.state();
  return addressesWithin(FAMILIES.flatMap((family) => nodePortPrefixes(family, configuration, node) ?? ANY[family]));
}
