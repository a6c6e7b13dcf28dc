import type { FamilyBasis } from "../answers/mod.ts";
import {
  balanceOptions,
  type Configuration,
  conntrackSettings,
  familySettings,
  featureSettings,
  lacksPrimaryAddress,
  routesLoopback,
} from "../config/mod.ts";
import {
  createFamilyChannel,
  type FamilyChannel,
  type FamilyHealth,
  type Ledger,
  mayRest,
  REST_DELAYS,
  type StopOptions,
} from "../core/channel/mod.ts";
import {
  describeRules,
  type FamilySettings,
  nodePortOf,
  refusedPorts,
  type ServicePort,
  type SyncReport,
} from "../core/model/mod.ts";
import {
  createFamilyPlanner,
  type FamilyPlanner,
  type HealthCheckChanges,
  INTERNAL_SERVICE,
  type InternalService,
  type NoLocalEndpoints,
  type PlanChanges,
  type PlannedPort,
  type Weighing,
} from "../core/planning/mod.ts";
import type { Problem, ReportProblems } from "../core/problems/mod.ts";
import {
  type NodeState,
  type ServiceKey,
  serviceKey,
  serviceKeyOf,
  type TrackedChanges,
  type Tracking,
} from "../core/tracking/mod.ts";
import type { NodeFamily } from "../features/mod.ts";
import { addressesWithin, type PlannedOptions } from "../observe/mod.ts";
import type { Family, Topic } from "../platform/mod.ts";
import { familyOptions, type ProxyOptions } from "./proxy_options.ts";

const NONE: ReadonlySet<string> = new Set();

/** The prefix of all addresses of a family. */
export const ANY_ADDRESS: Readonly<Record<Family, string>> = { IPv4: "0.0.0.0/0", IPv6: "::/0" };

/** One IP family between tracking and the kernel: its planner, channel and worker. */
export interface ServedFamily extends NodeFamily {
  /** Plans the changes and sends the result to the worker. */
  apply(changes: TrackedChanges): void;
  /** Holds back these endpoint counts until everything applied so far is in effect, then passes them to the listener. */
  holdHealthChecks(changes: HealthCheckChanges): void;
  /** Sends the settings; call it when the node or the service ranges are known or have changed. */
  configure(): void;
  /** Plans these services first and sends them to the worker; call it before the first `apply`. */
  startAhead(services: readonly ServiceKey[]): void;
  start(): void;
  /** Number of service ports whose last change is not in the kernel. */
  changesPending(): number;
  noLocalEndpoints(): NoLocalEndpoints;
  /** Whether this family has any service ports, including Sluice's own. */
  hasServicePorts(): boolean;
  /** See `FamilyLink.relayCounts`. */
  relayCounts(): Promise<Readonly<Record<string, number>> | undefined>;
  readonly basis: FamilyBasis;
  /** See `FamilyLink.stop`. */
  stop(options?: StopOptions): Promise<void>;
}

/** The events of the families. */
export interface FamilyTopics {
  /** A change has been planned, from `startedAtMs` (milliseconds since 1970) until now; see `ChangeFeed.planned`. */
  readonly planned: Topic<[family: Family, changes: PlanChanges, options: PlannedOptions, startedAtMs: number]>;
  /**
   * A sync has ended; `triggerTimesMs` are the trigger times of the changes it brought into effect, in milliseconds since
   * 1970.
   */
  readonly reported: Topic<[report: SyncReport, triggerTimesMs: readonly number[]]>;
  readonly healthChanged: Topic<[family: Family, health: FamilyHealth]>;
}

/** The listeners of a served family. */
export interface ServedFamilyListener extends FamilyTopics {
  /** The rules for these numbers of local endpoints are in effect. */
  onHealthChecks(family: Family, localReadyEndpoints: ReadonlyMap<ServiceKey, number>): void;
  readonly onProblems: ReportProblems;
  readonly onBalanceLimit: (service: ServiceKey, problem: Problem) => void;
}

interface FamilyParts {
  readonly family: Family;
  readonly tracking: Tracking;
  readonly options: ProxyOptions;
  readonly listener: ServedFamilyListener;
  /** Tracks each change until it is in effect. */
  readonly ledger: Ledger;
  /** Whether the other family has service ports. */
  readonly otherHasServicePorts: () => boolean;
}

/** Starts a family's worker and planner. */
export function serveFamily(parts: FamilyParts): ServedFamily {
  const { family, tracking, listener, ledger, otherHasServicePorts, options: { configuration, clock } } = parts;
  const healthChecks = createHeldHealthChecks(family, ledger, listener);
  const settings = () => familySettings(family, configuration, tracking.node.state(), tracking.serviceCIDRs.ranges());
  const { planner, leaveOut, weigh } = createPlanner(parts);
  const channel = createServedChannel(parts, planner, settings, healthChecks.reported);
  const checkNodePorts = createNodePortCheck(family, configuration, listener.onProblems);
  let hasPlanned = false;
  const hasUnsent = () => channel.pending() > 0;
  const send = ({ set, deleted }: PlanChanges) => {
    ledger.planned([...set.keys(), ...deleted]);
    channel.set(set);
    channel.delete(deleted);
  };
  const announce = (planned: PlanChanges, startedAtMs: number, first?: number) => {
    listener.planned.publish(family, planned, { first, isDualStack: otherHasServicePorts() }, startedAtMs);
    send(planned);
  };
  return {
    family,
    apply(changes) {
      const startedAtMs = clock.now(), planned = planner.plan(changes), { set, deleted } = planned;
      const first = hasPlanned ? undefined : [...planner.ports()].length;
      hasPlanned = true;
      if (set.size === 0 && deleted.length === 0) return;
      checkNodePorts(tracking.node.state(), set.values());
      ledger.planned([], [...changes.endpoints[family].triggerTimesMs.values()].flat());
      announce(planned, startedAtMs, first);
    },
    *ports() {
      for (const port of planner.ports()) if (port.service !== INTERNAL_SERVICE) yield port;
    },
    portsOf: (service) => service === INTERNAL_SERVICE ? [] : planner.portsOf(service),
    leaveOut,
    weigh,
    planAgain(services) {
      const startedAtMs = clock.now(), planned = planner.planSome(services);
      if (planned.set.size > 0) announce(planned, startedAtMs);
    },
    nodePortAddresses: () => addressesWithin(settings().nodePortPrefixes ?? [ANY_ADDRESS[family]]) ?? [],
    call: channel.link.call,
    serveInternal: createInternalServing(ledger, (service) => send(planner.planInternal(service))),
    holdHealthChecks(changes) {
      healthChecks.hold(changes);
      // No rules change for them, so they are in effect with the last revision sent.
      if (!hasUnsent()) ledger.unchanged();
    },
    configure: () => channel.configure(settings()),
    startAhead(services) {
      const planned = planner.planSome(services);
      checkNodePorts(tracking.node.state(), planned.set.values());
      channel.configure(settings());
      send(planned);
      channel.startAhead();
    },
    start: () => channel.start(),
    changesPending: () => ledger.waiting(hasUnsent()),
    hasServicePorts: () => channel.hasServicePorts(),
    hasServices: () => planner.hasServices(),
    noLocalEndpoints: () => planner.noLocalEndpoints(),
    relayCounts: async () => await channel.link.relayCounts?.(),
    compare: channel.link.compare,
    basis: {
      planner,
      settings,
      revision: () => channel.revision(),
      rules: (key) => channel.link.call(describeRules, key),
      relayPlaces: () => channel.link.relayPlaces?.(),
      since: ({ plannedIn, wanted }: PlannedPort) => ledger.effect(wanted.name, plannedIn, hasUnsent()),
    },
    stop: (stopOptions) => channel.stop(stopOptions),
  };
}

/** Creates the planner, and what features use to leave out endpoints and to weigh them. */
function createPlanner({ family, tracking, options: { configuration }, listener }: FamilyParts) {
  let leftOut: () => ReadonlySet<string> = () => NONE;
  let weighing: Weighing | undefined;
  const planner = createFamilyPlanner({
    ...{ family, nodeName: configuration.nodeName, tracking, balance: balanceOptions(configuration) },
    unreachable: () => leftOut(),
    weighing: () => weighing,
    onProblems: listener.onProblems,
    onLimit: listener.onBalanceLimit,
  });
  const leaveOut: NodeFamily["leaveOut"] = (endpoints) => void (leftOut = endpoints);
  const weigh: NodeFamily["weigh"] = (loads) => void (weighing = loads);
  return { planner, leaveOut, weigh };
}

/** Creates the channel to the family's worker. `onReport` is called before the report's topic. */
function createServedChannel(
  { family, options, listener, ledger, otherHasServicePorts }: FamilyParts,
  planner: FamilyPlanner,
  settings: () => FamilySettings,
  onReport: (report: SyncReport) => void,
): FamilyChannel {
  const { configuration, clock, logger, restDelays = REST_DELAYS } = options;
  const kernel = family === "IPv4"
    ? [...conntrackSettings(configuration.conntrack, options.cores), ...featureSettings(configuration)]
    : [];
  return createFamilyChannel({
    ...{ family, minSyncPeriodMs: configuration.minSyncPeriodMs, restDelays, clock, logger },
    connect: (workerListener) => options.startFamily(familyOptions(family, kernel, options), workerListener),
    mayRest: () => mayRest(family, routesLoopback(settings(), configuration), otherHasServicePorts()),
    onSend: (revision) => ledger.sent(revision, planner.rounds()),
    onReport(report) {
      const triggerTimesMs = ledger.reported(report);
      onReport(report);
      listener.reported.publish(report, triggerTimesMs);
    },
    onHealth: (health) => listener.healthChanged.publish(family, health),
    onProblems: (scope, problems) => listener.onProblems(`worker ${family} ${scope}`, problems),
  });
}

/** Serves Sluice's own service: `send` sends its plan, and a call's `onEffect` waits for the rules. */
function createInternalServing(
  ledger: Ledger,
  send: (service: InternalService | undefined) => void,
): NodeFamily["serveInternal"] {
  const waiting = ledger.awaiting<"rules", () => void>({
    settled: (settled) => settled.forEach(([, onEffect]) => onEffect()),
  });
  return (service, onEffect) => {
    waiting.delete("rules");
    if (service) waiting.add("rules", onEffect);
    send(service);
  };
}

/** Holds back the endpoint counts of health checks until the rules for them are in effect. */
function createHeldHealthChecks(family: Family, ledger: Ledger, listener: ServedFamilyListener) {
  const settled = new Map<ServiceKey, number>();
  const waiting = ledger.awaiting<ServiceKey, number>({
    settled(counts, { report }) {
      for (const [key, count] of counts) settled.set(key, count);
      release(report);
    },
  });
  /** Passes on the counts of services that the kernel has not refused. */
  const release = (report: SyncReport) => {
    const refused = new Set(refusedPorts(report.problems).map(({ servicePort }) => serviceKeyOf(servicePort)));
    const released = new Map([...settled].filter(([key]) => !refused.has(key)));
    for (const key of released.keys()) settled.delete(key);
    if (released.size > 0) listener.onHealthChecks(family, released);
  };
  const drop = (key: ServiceKey) => {
    waiting.delete(key);
    settled.delete(key);
  };
  return {
    hold({ set, deleted }: HealthCheckChanges) {
      deleted.forEach(drop);
      for (const { namespace, name, localReadyEndpoints } of set) {
        const key = serviceKey(namespace, name);
        const count = localReadyEndpoints[family];
        if (count === undefined) drop(key);
        else waiting.add(key, count);
      }
    },
    reported(report: SyncReport) {
      if (report.ok && settled.size > 0) release(report);
    },
  };
}

/**
 * Creates a check of planned service ports. While node ports are served on no address that other hosts reach, because the
 * node's primary one is unknown, it reports that once, with the first such node port.
 */
function createNodePortCheck(
  family: Family,
  configuration: Configuration,
  onProblems: ReportProblems,
): (node: NodeState, set: IteratorObject<ServicePort>) => void {
  const scope = `node ports ${family}`;
  let isReported = false;
  return (node, set) => {
    if (!lacksPrimaryAddress(family, configuration, node)) {
      if (isReported) onProblems(scope, []);
      isReported = false;
      return;
    }
    const closed = isReported ? undefined : set.find((port) => nodePortOf(port));
    if (closed === undefined) return;
    isReported = true;
    const example = `${nodePortOf(closed)!.port} of ${closed.name}`;
    onProblems(scope, [{
      code: "node-ports-closed",
      subject: `Node ${configuration.nodeName} (${family})`,
      detail: `node ports, such as ${example}, are served on no ${family} address that other hosts reach: ` +
        `nodePortAddresses has primary, and no primary ${family} address is known`,
    }]);
  };
}
