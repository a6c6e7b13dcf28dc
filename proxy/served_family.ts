import { type Family, machineCores } from "../platform/mod.ts";
import type { FamilyBasis } from "../answers/mod.ts";
import {
  createEffectHistory,
  createFamilyChannel,
  createHeldUntilSynced,
  type Effect,
  type FamilyChannel,
  type FamilyHealth,
  mayRest,
  REST_DELAYS,
  type StopOptions,
} from "../core/channel/mod.ts";
import { balanceOptions, conntrackSettings, familySettings, routesLoopback, trafficSettings } from "../config/mod.ts";
import { createGoneTracker, type EndpointUses } from "../core/failover/mod.ts";
import type { ClusterObject, EndpointSlice } from "../core/objects/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import type { PlannedOptions } from "../observe/mod.ts";
import { createKernelView, type Refusal } from "./kernel_view.ts";
import { createNodePortCheck } from "./node_port_check.ts";
import { ownersOf, usesOf } from "./endpoint_uses.ts";
import {
  type AttemptCounts,
  type PacketCounts,
  type PathExamination,
  type PathFinding,
  refusedPorts,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncReport,
  type TrafficReading,
} from "../core/model/mod.ts";
import {
  CANARY_KEY,
  type CanaryPlan,
  createFamilyPlanner,
  type HealthCheckChanges,
  type NoLocalEndpoints,
  type PlanChanges,
  type PlannedPort,
} from "../core/planning/mod.ts";
import { familyOptions, type ProxyOptions } from "./proxy_options.ts";
import { type ServiceKey, serviceKey, serviceKeyOf, type TrackedChanges, type Tracking } from "../core/tracking/mod.ts";

/** One IP family between tracking and the kernel: its planner, channel and worker. */
export interface ServedFamily {
  readonly family: Family;
  /** Plans the changes and sends the result to the worker. */
  apply(changes: TrackedChanges): void;
  /**
   * Serves the canary, or no longer; calls `onEffect` once the rules for it are in effect, and not if another call comes first.
   */
  serveCanary(canary: CanaryPlan | undefined, onEffect: () => void): void;
  /** Holds back these endpoint counts until everything applied so far is in effect, then passes them to the listener. */
  holdHealthChecks(changes: HealthCheckChanges): void;
  /** Sends the settings; call it when the node or the service ranges are known or have changed. */
  configure(): void;
  /** Plans these services first and sends them to the worker; call it before the first `apply`. */
  startAhead(services: readonly ServiceKey[]): void;
  /** Starts syncing to the kernel. */
  start(): void;
  /** Number of service ports whose last change is not in the kernel. */
  changesPending(): number;
  noLocalEndpoints(): NoLocalEndpoints;
  /** Whether this family has any service ports. */
  hasServicePorts(): boolean;
  /** Plans the services of these TCP endpoints again, after a change of those that are unreachable. */
  planAgain(endpoints: ReadonlySet<string>): void;
  /** Notes objects of an earlier run, for connections to endpoints that have left their slices since. */
  noteEarlier(objects: readonly ClusterObject[]): void;
  /** Finds the uses of TCP endpoints (see `FailureWatchOptions.usesOf`). */
  usesOf(endpoints: ReadonlySet<string>): ReadonlyMap<string, EndpointUses>;
  /** Reads counted connection attempts; undefined if there are none or the worker does not answer. */
  attemptCounts(): Promise<AttemptCounts | undefined>;
  /** Whether any of them belongs to a service of the cluster. */
  hasServices(): boolean;
  /** Reads packet counters of rules; undefined if there are none or the worker does not answer. */
  packetCounts(): Promise<PacketCounts | undefined>;
  /** See `FamilyLink.readTraffic`. */
  readTraffic(): void;
  /** See `FamilyLink.relayFigures`. */
  relayFigures(): Promise<Readonly<Record<string, number>> | undefined>;
  /** See `FamilyLink.compare`. */
  compare(): void;
  /** See `FamilyLink.examine`. */
  examine(what: PathExamination): Promise<readonly PathFinding[] | undefined>;
  /** Data for answers about this family. */
  readonly basis: FamilyBasis;
  /** See `FamilyLink.stop`. */
  stop(options?: StopOptions): Promise<void>;
}

/** Callbacks of a served family. */
export interface ServedFamilyListener {
  /** A change has been planned, from `startedAtMs` (milliseconds since 1970) until now; see `ChangeFeed.planned`. */
  onChange(family: Family, changes: PlanChanges, options: PlannedOptions, startedAtMs: number): void;
  /** Everything planned so far was sent as part of this revision. */
  onSent(family: Family, revision: number): void;
  /**
   * A sync has ended; `triggerTimesMs` are the trigger times of the changes it brought into effect, in milliseconds since
   * 1970.
   */
  onReport(report: SyncReport, triggerTimesMs: readonly number[]): void;
  /** See `FamilyListener.onTraffic`. */
  onTraffic?(family: Family, reading: TrafficReading): void;
  onHealth(family: Family, health: FamilyHealth): void;
  /** The rules for these numbers of local endpoints are in effect. */
  onHealthChecks(family: Family, localReadyEndpoints: ReadonlyMap<ServiceKey, number>): void;
  readonly onProblems: ReportProblems;
}

/**
 * Starts a family's worker and planner.
 * @param otherHasServicePorts whether the other family has service ports
 * @param unreachable the TCP endpoints that do not answer this node; none by default
 */
export function serveFamily(
  family: Family,
  tracking: Tracking,
  options: ProxyOptions,
  listener: ServedFamilyListener,
  otherHasServicePorts: () => boolean,
  unreachable?: () => ReadonlySet<string>,
): ServedFamily {
  const { configuration, logger, clock } = options;
  const { nodeName } = configuration;
  const latencies = createTriggerTimes();
  const history = createEffectHistory();
  const kernelView = createKernelView();
  const healthChecks = createHeldHealthChecks(family, listener);
  const balance = balanceOptions(configuration);
  const planner = createFamilyPlanner({
    family,
    nodeName,
    tracking,
    balance,
    unreachable,
    onProblems: listener.onProblems,
  });
  const checkNodePorts = createNodePortCheck(family, configuration, listener.onProblems);
  const kernel = family === "IPv4"
    ? [...conntrackSettings(configuration.conntrack, machineCores()), ...trafficSettings(configuration)]
    : [];
  const channel: FamilyChannel = createFamilyChannel({
    family,
    connect: (workerListener) => options.startFamily(familyOptions(family, kernel, options), workerListener),
    minSyncPeriodMs: configuration.minSyncPeriodMs,
    restDelays: options.restDelays ?? REST_DELAYS,
    mayRest: () => mayRest(family, routesLoopback(settings(), configuration), otherHasServicePorts()),
    clock,
    logger,
    onSend(revision) {
      if (canary !== undefined) canary.revision ??= revision;
      latencies.sent(revision);
      history.sent(revision, planner.rounds());
      kernelView.sent(revision);
      listener.onSent(family, revision);
      healthChecks.sent(revision);
    },
    onReport(report) {
      kernelView.reported(report);
      if (report.ok) {
        history.inEffect(report.revision, report.endedAtMs);
        if (canary?.revision !== undefined && canary.revision <= report.revision) canary.onEffect();
        healthChecks.inEffect(report);
      }
      listener.onReport(report, report.ok ? latencies.inEffect(report.revision) : []);
    },
    onTraffic: (reading) => listener.onTraffic?.(family, reading),
    onHealth: (health) => listener.onHealth(family, health),
    onProblems: (scope, problems) => listener.onProblems(`worker ${family} ${scope}`, problems),
  });
  let hasPlanned = false;
  let canary: { revision: number | undefined; readonly onEffect: () => void } | undefined;
  const settings = () => familySettings(family, configuration, tracking.node.state(), tracking.serviceCIDRs.ranges());
  const goneEndpoints = configuration.failover.resetGoneConnections
    ? createGoneTracker(tracking.endpoints[family].slicesOf)
    : undefined;
  let earlier: readonly EndpointSlice[] = [];
  /** The endpoints that are gone after the change of these services. */
  const goneAfter = (services: Iterable<ServiceKey>): readonly string[] => {
    const gone = goneEndpoints?.note(services) ?? [], before = goneEndpoints?.goneSince(earlier) ?? [];
    earlier = [];
    return [...gone, ...before];
  };
  const pass = (planned: PlanChanges, startedAtMs: number, first?: number) => {
    const { set, deleted } = planned;
    listener.onChange(family, planned, { first, isDualStack: otherHasServicePorts() }, startedAtMs);
    kernelView.planned(keysOf(set));
    kernelView.planned(deleted);
    channel.set(set);
    channel.delete(deleted);
  };
  return {
    family,
    apply(changes) {
      const startedAtMs = clock.now();
      const planned = planner.plan(changes), { set, deleted } = planned;
      const first = hasPlanned ? undefined : [...planner.ports()].length;
      hasPlanned = true;
      const gone = goneAfter(changes.endpoints[family].services);
      if (gone.length > 0) channel.gone(gone);
      if (set.length === 0 && deleted.length === 0) return;
      checkNodePorts(tracking.node.state(), set);
      latencies.planned(changes.endpoints[family].triggerTimesMs.values());
      pass(planned, startedAtMs, first);
    },
    planAgain(endpoints) {
      const startedAtMs = clock.now();
      const owners = ownersOf(ofServices(planner.ports()), endpoints);
      const planned = planner.planAgain(new Set([...owners.values()].flat().map(({ service }) => service)));
      if (planned.set.length > 0) pass(planned, startedAtMs);
    },
    noteEarlier(objects) {
      earlier = objects.filter((object) => object.kind === "EndpointSlice").filter((slice) => slice.family === family);
      // Before the first plan, the current slices are unknown.
      const gone = hasPlanned ? goneAfter([]) : [];
      if (gone.length > 0) channel.gone(gone);
    },
    usesOf: (endpoints) => usesOf(ofServices(planner.ports()), endpoints),
    attemptCounts: () => channel.attemptCounts(),
    serveCanary(plan, onEffect) {
      canary = plan && { revision: undefined, onEffect };
      const { set, deleted } = planner.planCanary(plan);
      kernelView.planned([...keysOf(set), ...deleted]);
      channel.set(set);
      channel.delete(deleted);
    },
    holdHealthChecks(changes) {
      healthChecks.hold(changes);
      if (channel.pending() > 0) return;
      // No rules change for them, so they are in effect with the last revision sent.
      healthChecks.sent(channel.revision());
      healthChecks.release();
    },
    configure: () => channel.configure(settings()),
    startAhead(services) {
      const { set } = planner.planAhead(services);
      checkNodePorts(tracking.node.state(), set);
      channel.configure(settings());
      kernelView.planned(keysOf(set));
      channel.set(set);
      channel.startAhead();
    },
    start: () => channel.start(),
    changesPending: () => kernelView.waiting(channel.pending() > 0),
    hasServicePorts: () => channel.hasServicePorts(),
    hasServices: () => planner.hasServices(),
    noLocalEndpoints: () => planner.noLocalEndpoints(),
    packetCounts: () => channel.packetCounts(),
    readTraffic: () => channel.readTraffic(),
    relayFigures: () => channel.relayFigures(),
    compare: () => channel.compare(),
    examine: (what) => channel.examine(what),
    basis: {
      planner,
      settings,
      revision: () => channel.revision(),
      rules: (key) => channel.describe(key),
      relayPlaces: () => channel.relayPlaces(),
      since: ({ plannedIn, wanted }: PlannedPort) =>
        effectOf(history.since(plannedIn), channel.pending(), kernelView.refusal(wanted.name)),
    },
    stop: (stopOptions) => channel.stop(stopOptions),
  };
}

/** The service ports of the cluster's services: the canary's only endpoint is this process. */
function ofServices(ports: Iterable<PlannedPort>): readonly PlannedPort[] {
  return [...ports].filter(({ service }) => service !== CANARY_KEY);
}

function keysOf(ports: readonly ServicePort[]): readonly ServicePortKey[] {
  return ports.map(({ name, protocol }) => servicePortKey(name, protocol));
}

/**
 * Returns the recorded effect, or "in effect" for a change that was reverted before it was sent. A change that waits says
 * so even if the kernel has refused the one before it.
 */
function effectOf(recorded: Effect, changesPending: number, refusal: Refusal | undefined): Effect {
  if (recorded.state === "in effect" && refusal !== undefined) {
    return { ...recorded, state: "refused", syncedAtMs: refusal.sinceMs, refusal: refusal.message };
  }
  if (recorded.state === "in effect" || recorded.revision !== undefined || changesPending > 0) return recorded;
  return { ...recorded, state: "in effect", orEarlier: true };
}

/** Holds back the endpoint counts of health checks until the rules for them are in effect. */
function createHeldHealthChecks(family: Family, listener: ServedFamilyListener) {
  const held = createHeldUntilSynced<ServiceKey, number>();
  let lastInEffect: SyncReport | undefined;
  const release = () => {
    if (lastInEffect === undefined) return;
    const failed = new Set(refusedPorts(lastInEffect.problems).map(({ servicePort }) => serviceKeyOf(servicePort)));
    const arrived = held.inEffect(lastInEffect.revision, failed);
    if (arrived.size > 0) listener.onHealthChecks(family, arrived);
  };
  return {
    hold({ set, deleted }: HealthCheckChanges) {
      deleted.forEach(held.drop);
      for (const { namespace, name, localReadyEndpoints } of set) {
        const key = serviceKey(namespace, name);
        const count = localReadyEndpoints[family];
        if (count === undefined) held.drop(key);
        else held.hold(key, count);
      }
    },
    sent: held.sent,
    inEffect(report: SyncReport) {
      lastInEffect = report;
      release();
    },
    release,
  };
}

/** Keeps the trigger times of changes until their revision is in effect. */
function createTriggerTimes() {
  let waiting: number[] = [];
  let inFlight: { readonly revision: number; readonly times: readonly number[] }[] = [];
  return {
    planned(times: Iterable<readonly number[]>) {
      for (const batch of times) waiting.push(...batch);
    },
    sent(revision: number) {
      if (waiting.length === 0) return;
      inFlight.push({ revision, times: waiting });
      waiting = [];
    },
    inEffect(revision: number): readonly number[] {
      const done = inFlight.filter((one) => one.revision <= revision);
      inFlight = inFlight.filter((one) => one.revision > revision);
      return done.flatMap((one) => one.times);
    },
  };
}
