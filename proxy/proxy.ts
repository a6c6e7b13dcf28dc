import { abortedBy, errorText, FAMILIES, type Family, type Logger } from "../platform/mod.ts";
import { type Configuration, type GivenFlags, isFeatureEnabled, nodePortPrefixes } from "../config/mod.ts";
import type { ControlAnswers } from "../answers/control/mod.ts";
import { tellObservers } from "./family_observers.ts";
import { runCleanup, runInit } from "./family_task.ts";
import { shareFiles } from "./file_shares.ts";
import {
  addressesWithin,
  createDriftWatch,
  createEventRecorder,
  createMetrics,
  createNodeEvents,
  createProxyHealth,
  createServiceHealth,
  createStatusRecorder,
  type FamilyPacketCounts,
  findNeighbours,
  NODE_SCOPE,
  startOperatorServers,
  watchNodePresence,
} from "../observe/mod.ts";
import { createConnectionLimits } from "../platform/http/mod.ts";
import { createProblemBoard, type ProblemBoard } from "../core/problems/mod.ts";
import { createHealthCheckPlanner, servicesFirst } from "../core/planning/mod.ts";
import type { ProxyOptions } from "./proxy_options.ts";
import { type ServedFamily, serveFamily } from "./served_family.ts";
import { openSource } from "../sources/mod.ts";
import { createTracking, type NodeChange, type Tracking } from "../core/tracking/mod.ts";

/** Runs the proxy until its signal, or does once what the configuration asks for instead. Resolves with the exit status. */
export async function runProxy(options: ProxyOptions): Promise<number> {
  if (options.configuration.cleanup) return await runCleanup(options);
  if (options.configuration.initOnly) return await runInit(options);
  return await serve(options);
}

/** How long changes gather before they are planned: what an API server sends at once arrives in several pieces. */
const GATHERING_MS = 2;

/** From the source through tracking and planning to both families, with everything that watches them do it. */
async function serve(options: ProxyOptions): Promise<number> {
  const { configuration, logger, clock } = options;
  const { nodeName, mode, modeDescription, syncPeriodMs } = configuration;
  const ending = abortedBy(options.signal, options.lost, options.replaced);
  const { signal } = ending;

  // Other sources need not know this node: they serve those who have no cluster, or leave out what it says.
  const awaitsPodCIDR = configuration.source.kind === "kube" && configuration.detectLocalMode === "NodeCIDR";
  const startedAtMs = clock.now();
  const recorder = createStatusRecorder();
  const problems = createProblemBoard(clock, logger);
  const onChange = () => {
    clock.schedule(GATHERING_MS, applyChanges);
  };
  const tracking = createTracking({
    kinds: modeDescription.kinds,
    nodeName,
    bindAddress: configuration.bindAddress,
    awaitsPodCIDR,
    externalIPs: isFeatureEnabled("AllowServiceExternalIPs", configuration.featureGates),
    clock,
    onSynced: checkNode,
    onChange,
    onProblems: problems.report,
  });
  const health = createProxyHealth({ clock, syncPeriodMs });
  const metrics = createMetrics({
    mode: modeDescription,
    now: () => clock.now(),
    read: () => changeFigures(tracking, families),
    featureGates: configuration.featureGates,
    fileLimit: options.fileLimit,
    readPacketCounts: () => packetCountsOf(families),
    readProblems: problems.counts,
  });
  const healthChecks = createHealthCheckPlanner({ nodeName, tracking });
  const files = shareFiles(options.fileLimit);
  const limits = createConnectionLimits({ clock, max: files.connections });
  const serviceHealth = createServiceHealth({
    addresses: () => healthCheckAddresses(configuration, tracking),
    isHealthy: () => health.status().healthy,
    onFailure: (service, port, why) => nodeEvents?.healthCheckFailed(service, port, why),
    onProblems: problems.report,
    mostListeners: files.listeners,
    limits,
    clock,
    logger,
    signal,
  });

  const { source, events, otherNodes, close } = await openSource({ ...options, onApiRequest: metrics.apiRequest });
  // What people ask is answered by what is loaded when they first do.
  let loaded: Promise<ControlAnswers> | undefined;
  const load = async () => {
    const { answersOfProxy } = await import("./running_answers.ts");
    return answersOfProxy({ configuration, tracking, families, health, recorder, problems, clock, startedAtMs });
  };
  const answers = () => loaded ??= load();
  const statusPage = async () => {
    const { createStatusPage } = await import("../answers/page/mod.ts");
    return await createStatusPage(await answers());
  };
  const flags: GivenFlags = options.flags ?? new Map();
  const watched = { configuration, health, metrics, problems, flags, startedAtMs, statusPage, limits };
  await startOperatorServers({ ...watched, clock, logger, signal });
  const recordEvents = events && createEventRecorder({ ...events, nodeName, clock, logger, signal });
  const nodeEvents = recordEvents && createNodeEvents(recordEvents, mode, clock);
  const onNoneSupported = () => ending.abort(new Error("this host can serve neither IP family"));
  const driftWatch = createDriftWatch({
    findNeighbours: () => findNeighbours(configuration, clock),
    onProblems: problems.report,
    logger,
  });
  const observers = tellObservers({
    health,
    metrics,
    recorder,
    problems,
    nodeEvents,
    driftWatch,
    logger,
    onNoneSupported,
  });
  const listener = { ...observers, onHealthChecks: serviceHealth.inEffect, onProblems: problems.report };
  const families: readonly ServedFamily[] = FAMILIES.map((family) => {
    const otherHasServicePorts = () => families.some((other) => other.family !== family && other.hasServicePorts());
    return serveFamily(family, tracking, options, listener, otherHasServicePorts);
  });
  let started = false;
  let startedAhead = false;

  function checkNode(): void {
    setNodeEligible();
    if (otherNodes === undefined) return;
    watchNodePresence({
      nodeName,
      node: tracking.node,
      awaitsPodCIDR,
      otherNodes,
      problems,
      onMissing: (message) => nodeEvents?.nodeMissing(message),
      clock,
      logger,
      signal,
    });
  }

  /** As by kube-proxy, a Node that was deleted counts as it was last seen. */
  function setNodeEligible(): void {
    const { leaving, known } = tracking.node.state();
    health.setNodeEligible(!leaving && (known || otherNodes === undefined));
  }

  /** Sends ahead what the node's start waits for. Says whether there is such a thing among many others. */
  function startAhead(): boolean {
    startedAhead = true;
    const first = servicesFirst(tracking.services);
    if (first.length === 0) return false;
    for (const family of families) family.startAhead(first);
    return true;
  }

  function applyChanges(): void {
    if (!startedAhead && startAhead()) {
      // In a turn of its own, so that they are sent before everything is planned.
      clock.schedule(0, applyChanges);
      return;
    }
    const changes = tracking.take();
    if (changes.node) {
      setNodeEligible();
      reportNode(nodeName, changes.node, problems, logger);
    }
    for (const family of families) {
      if (changes.node || changes.serviceRanges || !started) family.configure();
      family.apply(changes);
      if (!started) family.start();
    }
    const planned = healthChecks.plan(changes);
    serviceHealth.apply(planned);
    for (const family of families) family.holdHealthChecks(planned);
    if (!started) logger.info("caches synced", { mode, node: nodeName });
    started = true;
  }

  options.onAnswers?.(answers);
  logger.info("starting", { mode, node: nodeName, source: configuration.source.kind });
  try {
    await source.run(tracking, signal);
    if (options.signal.aborted || options.replaced?.aborted) return 0;
    logger.error("exiting", { error: errorText(signal.reason) });
    return 1;
  } finally {
    close();
    const keepWorker = options.replaced?.aborted && !options.signal.aborted;
    await Promise.all(families.map((family) => family.stop({ keepWorker })));
  }
}

function reportNode(node: string, { after, changed }: NodeChange, problems: ProblemBoard, logger: Logger): void {
  const detail = `Node ${node} was deleted`;
  problems.report(NODE_SCOPE, after.deleted ? [{ code: "node-deleted", subject: `Node ${node}`, detail }] : []);
  if (!after.deleted) {
    logger.info("read the Node object", { node, changed: changed.join(), ...after.nodeIPs, zone: after.zone });
  }
}

/** Where health check node ports are served: wherever node ports are. */
function healthCheckAddresses(configuration: Configuration, tracking: Tracking): readonly string[] | undefined {
  if (configuration.nodePortAddresses.length === 0) return undefined;
  const node = tracking.node.state();
  return addressesWithin(FAMILIES.flatMap((family) => nodePortPrefixes(family, configuration, node) ?? ANY[family]));
}

async function packetCountsOf(families: readonly ServedFamily[]): Promise<FamilyPacketCounts> {
  const counts = await Promise.all(
    families.map(async (served) => [served.family, await served.packetCounts()] as const),
  );
  return Object.fromEntries(counts.filter(([, known]) => known !== undefined));
}

const ANY: Readonly<Record<Family, string>> = { IPv4: "0.0.0.0/0", IPv6: "::/0" };

function changeFigures({ services, endpoints }: Tracking, families: readonly ServedFamily[]) {
  return {
    serviceChangesPending: services.pending(),
    serviceChangesTotal: services.total(),
    endpointChangesPending: endpoints.IPv4.pending() + endpoints.IPv6.pending(),
    endpointChangesTotal: endpoints.IPv4.total() + endpoints.IPv6.total(),
    families: Object.fromEntries(families.map((served) => [served.family, {
      changesPending: served.changesPending(),
      noLocalEndpoints: served.noLocalEndpoints(),
    }])),
  };
}
