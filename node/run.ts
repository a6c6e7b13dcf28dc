import { abortedBy, createTopic, errorText, FAMILIES, processCpuMs } from "../platform/mod.ts";
import {
  balanceOptions,
  type Configuration,
  isFeatureEnabled,
  isServer,
  nodePortPrefixes,
  usesAnyRelay,
  watchedKinds,
} from "../config/mod.ts";
import type { ControlAnswers } from "../answers/control/mod.ts";
import { createChangeLoop } from "./change_loop.ts";
import { observeFamilies, packetCountsOf, relayCountsOf } from "./family_observers.ts";
import { runCleanup, runInit } from "./family_task.ts";
import { createFeatures } from "./features.ts";
import { createRoundPace } from "./round_pace.ts";
import { type ProxyOptions, shareFiles } from "./proxy_options.ts";
import { createNodeWatch } from "./node_watch.ts";
import { createSourceLink, type SourceLink } from "../observe/process/mod.ts";
import {
  addressesWithin,
  createChangeFeed,
  createDriftWatch,
  createEventRecorder,
  createMetrics,
  createNodeEvents,
  createProcessRecord,
  createProxyHealth,
  createServiceHealth,
  findNeighbours,
  type NodeEvents,
  ownAddresses,
  type ProxyHealth,
  startOperatorServers,
} from "../observe/mod.ts";
import { createLedgers, type Ledgers } from "../core/channel/mod.ts";
import { createConnectionLimits } from "../platform/http/mod.ts";
import type { Registry } from "../platform/metrics/mod.ts";
import { createProblemBoard, type Problem, type ReportProblems } from "../core/problems/mod.ts";
import { createAnnotationReports, createHealthCheckPlanner } from "../core/planning/mod.ts";
import type { RunningProxy } from "./running_status.ts";
import {
  ANY_ADDRESS,
  type FamilyTopics,
  type ServedFamily,
  type ServedFamilyListener,
  serveFamily,
} from "./served_family.ts";
import { type OpenSource, openSource } from "../sources/mod.ts";
import type { ApiRequestOutcome } from "../core/objects/mod.ts";
import { createTracking, type ServiceKey, type Tracking } from "../core/tracking/mod.ts";

/** Runs the proxy until its signal is aborted, or the one-time task that the configuration selects. Resolves with the exit status. */
export async function runProxy(options: ProxyOptions): Promise<number> {
  if (options.configuration.cleanup) return await runCleanup(options);
  if (options.configuration.initOnly) return await runInit(options);
  return await serve(options);
}

/** Assembles the node from its source to the kernel, with everything that observes it, and runs it. */
async function serve(options: ProxyOptions): Promise<number> {
  const { configuration, logger, clock } = options, { nodeName: node, mode, source: { kind } } = configuration;
  const run = createRun(options);
  const { process, feed, problems, health, features, signal } = run, { startedAtMs, recorder } = process;
  const cluster = await openCluster(run);
  const served = serveKernel(run, cluster);
  const metrics = observe(run, cluster, served);

  const { tracking, link } = cluster, { families, limits } = served;
  const running: RunningProxy = {
    ...{ configuration, tracking, families, health, recorder, problems, feed, link, features, clock, startedAtMs },
  };
  const { answers, statusPage } = lazyAnswers(running);
  try {
    const observed = { configuration, health, metrics, problems, startedAtMs, statusPage, limits };
    const asked = { flags: options.flags ?? new Map(), loggingFormat: options.logging.format };
    await startOperatorServers({ ...observed, ...asked, clock, logger, signal });
    options.processProblems?.attach(run.reportProblems);
    await startFeatures(run, cluster, running, metrics.registry);
    planChanges(run, cluster, served);

    options.onAnswers?.(answers);
    logger.info("starting", { mode, node, source: kind });
    await cluster.source.run(tracking, signal);
    return exitStatus(options, signal);
  } finally {
    const keepWorker = options.replaced?.aborted && !options.signal.aborted;
    if (keepWorker) process.endRun(metrics.registry.read());
    // The next run needs the ports.
    const stopped = keepWorker ? limits.ended() : features.stopped();
    await Promise.all([stopped, ...families.map((family) => family.stop({ keepWorker }))]);
    cluster.close();
  }
}

type Run = ReturnType<typeof createRun>;
type Cluster = Awaited<ReturnType<typeof openCluster>>;
type Served = ReturnType<typeof serveKernel>;

/** The state of a run, without the cluster and the kernel. */
function createRun(options: ProxyOptions) {
  const { configuration: { syncPeriodMs }, clock, logger } = options;
  const ending = abortedBy(options.signal, options.lost, options.replaced), { signal } = ending;
  const process = options.process ?? createProcessRecord(clock);
  const ledgers = createLedgers(clock);
  const feed = createChangeFeed(clock, ledgers, process.events);
  const problems = createProblemBoard(clock, logger, feed.problemChanged);
  const health = createProxyHealth({ clock, syncPeriodMs });
  const problemReported = createTopic<[Problem]>();
  const reportProblems: ReportProblems = (scope, list, options) => {
    problems.report(scope, list, options);
    list.forEach((problem) => problemReported.publish(problem));
  };
  const ofProblems = { problems, problemReported, reportProblems };
  return { options, ending, signal, process, clock, ledgers, feed, health, features: createFeatures(), ...ofProblems };
}

/** Opens the source, with the trackers that it feeds, and the Events at the API server. */
async function openCluster({ options, signal, clock, feed, problems, problemReported }: Run) {
  const { configuration } = options;
  const synced = createTopic(), changed = createTopic();
  // Only the API server has this node's Node object; other sources serve nodes without a cluster or omit the pod CIDR.
  const awaitsPodCIDR = configuration.source.kind === "kube" && configuration.detectLocalMode === "NodeCIDR";
  const tracking = createTracking({
    ...trackingOptions(options, awaitsPodCIDR),
    onSynced: synced.publish,
    onChange: changed.publish,
    onProblems: problems.report,
  });
  const linkChanged = createTopic<[SourceLink]>(), requestEnded = createTopic<[ApiRequestOutcome]>();
  const link = createSourceLink(clock, linkChanged.publish);
  linkChanged.subscribe(feed.linkChanged);
  const opened = await openSource({
    ...options,
    onApiRequest: requestEnded.publish,
    onLink: link.report,
    isOfNode: true,
    kept: options.kept && { ...options.kept, objects: tracking.objects, onServing: link.serveKept },
  });
  const nodeEvents = recordEvents(options, opened.events, signal);
  if (nodeEvents) {
    linkChanged.subscribe(nodeEvents.link);
    problemReported.subscribe(nodeEvents.problem);
  }
  const recordServiceProblem = (service: ServiceKey, problem: Problem, action: string) =>
    nodeEvents?.serviceProblem(service, problem, action);
  return { ...opened, tracking, synced, changed, awaitsPodCIDR, link, requestEnded, nodeEvents, recordServiceProblem };
}

/** Starts the families, and the health check node ports, which follow the rules in effect. */
function serveKernel({ options, signal, clock, ledgers, health, problems, reportProblems }: Run, cluster: Cluster) {
  const { configuration, logger } = options, { tracking, nodeEvents } = cluster;
  const files = shareFiles(options.fileLimit);
  const limits = createConnectionLimits({ clock, max: files.connections });
  const serviceHealth = createServiceHealth({
    addresses: () => healthCheckAddresses(configuration, tracking),
    isHealthy: () => isServing(health),
    onFailure: (service, port, why) => nodeEvents?.healthCheckFailed(service, port, why),
    onProblems: problems.report,
    mostListeners: files.listeners,
    ...{ limits, clock, logger, signal },
  });
  const topics: FamilyTopics = { planned: createTopic(), reported: createTopic(), healthChanged: createTopic() };
  const families = serveFamilies(tracking, options, {
    ...topics,
    onHealthChecks: serviceHealth.inEffect,
    onProblems: reportProblems,
    onBalanceLimit: (service, problem) => cluster.recordServiceProblem(service, problem, "Balance"),
  }, ledgers);
  return { families, topics, serviceHealth, limits };
}

function observe(
  run: Run,
  { tracking, source, link, requestEnded, nodeEvents }: Cluster,
  { families, topics }: Served,
) {
  const { options, process, clock, health, feed, features, problems } = run, { configuration, logger } = options;
  const metrics = createMetrics({
    mode: configuration.modeDescription,
    now: () => clock.now(),
    tracking,
    families,
    featureGates: configuration.featureGates,
    fileLimit: options.fileLimit,
    readPacketCounts: () => packetCountsOf(families),
    readRelayCounts: usesAnyRelay(configuration) ? () => relayCountsOf(families) : undefined,
    update: features.updateMetrics,
    problems: problems.counts,
    link: isServer(configuration.source) ? link.current : undefined,
    servers: () => source.servers?.() ?? [],
    earlier: process.earlier(),
    lastCounts: process.lastCounts,
  });
  requestEnded.subscribe(metrics.apiRequest);
  options.processFeatures?.forEach((feature) => feature.attach(metrics, process.startedAtMs));
  const neighbours = () => findNeighbours(configuration, clock);
  const driftWatch = createDriftWatch({ findNeighbours: neighbours, onProblems: problems.report, clock, logger });
  observeFamilies(topics, {
    ...{ health, feed, features, problems, recorder: process.recorder, metrics, nodeEvents, driftWatch, logger },
    onNoneSupported: (reasons) => run.ending.abort(new Error(`this host can serve neither IP family (${reasons})`)),
  });
  return metrics;
}

async function startFeatures(run: Run, cluster: Cluster, running: RunningProxy, registry: Registry): Promise<void> {
  const { options, ledgers, health, reportProblems, clock, signal } = run, { configuration, logger } = options;
  const { nodeName: name, modeDescription: mode } = configuration;
  const { tracking, ownNode: api, nodeEvents, recordServiceProblem } = cluster;
  const node = {
    ...{ name, mode, tracking, ledgers, families: running.families, health, ownAddresses, api },
    ...{ reportProblems, recordServiceProblem, clock, logger, signal },
    environment: options.env ?? (() => undefined),
    headline: async () => (await import("./running_status.ts")).headlineOf(running),
    recordEvent: (reason: string, subject: string, message: string) => nodeEvents?.normal(reason, subject, message),
  };
  await run.features.start(node, configuration, registry, [cluster.features, options.processFeatures ?? []]);
}

/** Plans the changes of the cluster from now on. */
function planChanges(run: Run, cluster: Cluster, { families, topics, serviceHealth }: Served): void {
  const { options, health, problems, clock, signal } = run, { configuration, logger } = options;
  const { tracking, awaitsPodCIDR, otherNodes, recordServiceProblem } = cluster, { nodeName, mode } = configuration;
  const nodeWatch = createNodeWatch({
    ...{ nodeName, node: tracking.node, awaitsPodCIDR, otherNodes, health, problems, clock, logger, signal },
    onMissing: (message) => cluster.nodeEvents?.nodeMissing(message),
  });
  cluster.synced.subscribe(nodeWatch.onSynced);
  const pace = createRoundPace(clock, configuration.minSyncPeriodMs, options.cpuMs ?? processCpuMs);
  topics.reported.subscribe(pace.synced);
  cluster.changed.subscribe(createChangeLoop({
    ...{ tracking, families, serviceHealth, pace, clock },
    planHealthChecks: createHealthCheckPlanner(nodeName, tracking),
    reportAnnotations: createAnnotationReports({
      tracking,
      balance: balanceOptions(configuration),
      onProblems: problems.report,
      onProblem: recordServiceProblem,
    }),
    onNodeChange: nodeWatch.onChange,
    onPlanned: run.features.planned,
    onStarted: () => logger.info("caches synced", { mode, node: nodeName }),
  }));
}

/** Returns the recorder of Events about the Node and Services; undefined if the source has no API server. */
function recordEvents(
  { configuration: { nodeName, mode, site }, clock, logger }: ProxyOptions,
  events: OpenSource["events"],
  signal: AbortSignal,
): NodeEvents | undefined {
  const recorder = events && createEventRecorder({ ...events, nodeName, clock, logger, signal });
  return recorder && createNodeEvents({ recorder, mode, sharesUplink: site.name !== "", clock });
}

function exitStatus({ signal, replaced, logger }: ProxyOptions, { reason }: AbortSignal): 0 | 1 {
  if (signal.aborted || replaced?.aborted) return 0;
  logger.error("exiting", { error: errorText(reason) });
  return 1;
}

/** Whether the proxy keeps up, its last syncs succeeded, and packets are not known to have stopped. */
function isServing(health: ProxyHealth): boolean {
  const { healthy, failure, packets } = health.status();
  return healthy && failure === undefined && packets?.flow !== false;
}

function trackingOptions({ configuration, clock }: ProxyOptions, awaitsPodCIDR: boolean) {
  const { nodeName, bindAddress, featureGates } = configuration, kinds = watchedKinds(configuration);
  const externalIPs = isFeatureEnabled("AllowServiceExternalIPs", featureGates);
  return { kinds, nodeName, bindAddress, awaitsPodCIDR, externalIPs, clock };
}

function serveFamilies(tracking: Tracking, options: ProxyOptions, listener: ServedFamilyListener, ledgers: Ledgers) {
  const families: readonly ServedFamily[] = FAMILIES.map((family) => {
    const otherHasServicePorts = () => families.some((other) => other.family !== family && other.hasServicePorts());
    return serveFamily({ family, tracking, options, listener, ledger: ledgers[family], otherHasServicePorts });
  });
  return families;
}

/** Returns the proxy's answers and its status page, whose code is loaded with the first request. */
function lazyAnswers(proxy: RunningProxy) {
  let loaded: Promise<ControlAnswers> | undefined;
  const load = async () => {
    const { answersOfProxy } = await import("./running_answers.ts");
    return answersOfProxy(proxy);
  };
  const answers = () => loaded ??= load();
  const statusPage = async () => {
    const { createStatusPage } = await import("../answers/page/mod.ts");
    return await createStatusPage(await answers());
  };
  return { answers, statusPage };
}

/** Returns the addresses of health check node ports, the same as for node ports; undefined means all. */
function healthCheckAddresses(configuration: Configuration, tracking: Tracking): readonly string[] | undefined {
  const node = tracking.node.state();
  return addressesWithin(
    FAMILIES.flatMap((family) => nodePortPrefixes(family, configuration, node) ?? ANY_ADDRESS[family]),
  );
}
