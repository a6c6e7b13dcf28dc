import {
  type Family,
  type FamilyDelta,
  frontendsOf,
  namespaceOf,
  nodePortOf,
  relayPortsOf,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncCounts,
  type SyncProblem,
} from "../../core/model/mod.ts";
import { type ClockAndLogger, errorText, joinHostPort, splitHostPort } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";
import {
  createPasses,
  deleteFlows,
  deleteUnansweredAttempts,
  type Flows,
  inTurns,
  listFlows,
  PASS_INTERVAL_MS,
} from "./conntrack_tool.ts";

/**
 * Removes conntrack entries of stale UDP flows: a flow to a service outlives a change of its rules, since only the
 * first packet of a flow passes them (kubernetes issues 19029 and 105657).
 *
 * - A service that has serving endpoints keeps its flows to them. All its other flows are removed, including those that
 *   began before it had endpoints (kube-proxy's pkg/proxy/conntrack).
 * - A service without a serving endpoint loses its flows: a client that only sends would keep its flow to a deleted endpoint
 *   forever (kubernetes issue 139628, fixed in 1.37, where flows to node ports stay).
 * - A deleted service loses its flows, which kube-proxy keeps until they expire. This includes frontends that the
 *   kernel serves before the first sync and that no service has: they were deleted while no proxy was running.
 *
 * Without endpoints, only flows whose destination the kernel rewrites count as flows of a service: the port of a node port may
 * be another program's at another address.
 */
interface ConntrackCleaner {
  /** Notes a delta that is about to be applied. Stops a deletion of flows to an endpoint that serves again. */
  noteDelta(known: KnownServicePorts, delta: FamilyDelta): void;
  /**
   * Starts to remove the entries that the noted changes have made stale, when the rules of a sync are in effect, and does not wait
   * for it. Starts no tool if nothing was noted. If conntrack fails, keeps the notes and logs the failure. The next sync reports it
   * as a problem, the one after that retries, and the problem stays until a removal succeeds. It never fails a sync.
   * @returns problems and counts of the sync and of removals that ended since the last call, and the delay after
   *   which another sync should start a removal or report it
   */
  afterSync<Counts>(rules: SyncedRules<Counts>, known: KnownServicePorts): {
    readonly problems: readonly SyncProblem[];
    readonly counts: Counts & RemovalCounts;
    readonly againAfterMs: number | undefined;
  };
}

type RemovalCounts = Pick<SyncCounts, "conntrack_deleted" | "conntrack_ms">;

/** The service ports after all deltas so far. */
interface KnownServicePorts {
  servicePort(key: ServicePortKey): ServicePort | undefined;
  servicePorts(): Iterable<ServicePort>;
}

/** A UDP destination of a service: `address:port`, or `*:port` for a node port. */
export type UdpFrontend = string;

/** The text form of a UDP frontend. An undefined address means a node port, which any address of the node may serve. */
export function udpFrontend(address: string | undefined, port: number): UdpFrontend {
  return address === undefined ? `*:${port}` : joinHostPort(address, port);
}

/** The state of a reconciler after a sync. */
interface SyncedRules<Counts> {
  takeCounts(): Counts;
  problems(): SyncProblem[];
  /** The UDP frontends that the kernel served before the first sync; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

interface CleanerOptions extends ClockAndLogger {
  readonly family: Family;
  readonly runner: Runner;
}

/** The reason why flows to a frontend may be stale. */
interface Note {
  /** The service port that serves it, or did last; its endpoints may answer. */
  readonly key: ServicePortKey | undefined;
  /** The endpoints that it lost; undefined if flows to anything else may be stale, too. */
  readonly lost: ReadonlySet<string> | undefined;
}

type Notes = Map<UdpFrontend, Note>;

/** The time after which a removal begins no further portion, so that it does not hold up flows of other services. */
const LONGEST_DELETION_MS = 5_000;
/** The flows of the first portion; one that takes less than a short time is followed by one of twice the size. */
const SMALLEST_PORTION = 4, SHORT_MS = 500;

/** Creates a cleaner without notes. */
export function createConntrackCleaner({ family, runner, logger, clock }: CleanerOptions): ConntrackCleaner {
  const notes: Notes = new Map();
  const passes = createPasses(clock), deletion = createDeletion({ family, runner, clock });
  const state: { counts: RemovalCounts; problem?: SyncProblem; isProblemNew: boolean } = {
    counts: {},
    isProblemNew: false,
  };

  const clean = async (known: KnownServicePorts): Promise<void> => {
    const startedMs = clock.monotonic(), noted = new Map(notes);
    // Notes that arrive while conntrack runs are for the next removal.
    notes.clear();
    const again = (frontends: Iterable<UdpFrontend>) => {
      for (const frontend of new Set(frontends)) {
        const { key, lost } = noted.get(frontend)!;
        addNote(notes, frontend, { key: (notes.get(frontend) ?? { key }).key, lost });
      }
    };
    try {
      const stale = await findStaleFlows(noted, known, family, runner);
      const left = await deletion.run(inTurns(stale, ({ frontend }) => namespaceOf(noted.get(frontend)?.key ?? "")));
      again(left.map(({ frontend }) => frontend));
      state.problem = undefined;
    } catch (error) {
      again(noted.keys());
      logger.warn("cannot remove stale UDP flows, retrying with the next sync", { error: errorText(error) });
      const message = `cannot remove stale UDP flows, retrying with the next sync: ${errorText(error)}`;
      state.problem = { code: "stale-flows-kept", servicePort: undefined, message };
      state.isProblemNew = true;
    }
    // A sync takes these before it starts another removal.
    state.counts = { conntrack_deleted: deletion.takeCount(), conntrack_ms: clock.monotonic() - startedMs };
  };

  return {
    noteDelta(known, delta) {
      const set = udpPortsOf(delta);
      noteChanges(notes, known, delta, set);
      for (const port of set.values()) deletion.spareUsedBy(port);
    },
    afterSync(rules, known) {
      for (const frontend of deletedFrontends(rules.takeEarlierUdpFrontends(), known)) {
        addNote(notes, frontend, { key: undefined, lost: undefined });
      }
      const { problem, counts, isProblemNew } = state;
      const problems = [...rules.problems(), ...(problem ? [problem] : [])];
      const result = { problems, counts: { ...rules.takeCounts(), ...counts } };
      state.counts = {};
      // A new failure is reported before it is repeated, so that failures are repeated ever more slowly.
      const waitMs = notes.size > 0 && !isProblemNew ? passes.start(() => clean(known)) : undefined;
      state.isProblemNew = false;
      return { ...result, againAfterMs: waitMs ?? (passes.isRunning() ? PASS_INTERVAL_MS : undefined) };
    },
  };
}

function addNote(notes: Notes, frontend: UdpFrontend, { key, lost }: Note): void {
  const earlier = notes.get(frontend);
  notes.set(frontend, { key, lost: earlier === undefined ? lost : lost && earlier.lost?.union(lost) });
}

function udpPortsOf({ set }: FamilyDelta): ReadonlyMap<ServicePortKey, ServicePort> {
  const udp = set.filter(({ protocol }) => protocol === "udp");
  return new Map(udp.map((port) => [servicePortKey(port.name, port.protocol), port]));
}

/** Notes the frontends whose flows a delta may make stale; `set` are the UDP service ports that it sets. */
function noteChanges(
  notes: Notes,
  known: KnownServicePorts,
  { deleted, base }: FamilyDelta,
  set: ReadonlyMap<ServicePortKey, ServicePort>,
): void {
  const noteFrontends = (key: ServicePortKey, port: ServicePort | undefined, lost?: ReadonlySet<string>) => {
    if (port?.protocol !== "udp") return;
    for (const frontend of udpFrontendsOf(port)) addNote(notes, frontend, { key, lost });
  };
  const noteDeleted = (key: ServicePortKey, port: ServicePort | undefined) => {
    const endpoints = endpointsOf(port);
    noteFrontends(key, port, endpoints.size > 0 ? endpoints : undefined);
  };
  // Former frontends come first: another service port may take them over in the same delta.
  for (const key of deleted) noteDeleted(key, known.servicePort(key));
  if (base === undefined) {
    for (const port of known.servicePorts()) {
      const key = servicePortKey(port.name, port.protocol);
      if (!set.has(key)) noteDeleted(key, port);
    }
  }
  const changed = [...set].flatMap(([key, port]) => {
    const previous = known.servicePort(key), lost = lostBy(previous, port, base === undefined);
    return lost === "nothing" ? [] : [{ key, lost, previous, port }];
  });
  for (const { key, lost, previous } of changed) noteFrontends(key, previous, lost);
  for (const { key, lost, port } of changed) noteFrontends(key, port, lost);
}

/** Deletes flows, a portion at a time, so that a service with very many does not hold up those of others. */
function createDeletion({ family, runner, clock }: Omit<CleanerOptions, "logger">) {
  const state: {
    portion: readonly StaleFlows[];
    left: readonly StaleFlows[];
    stop: AbortController;
    /** The deleted entries that `takeCount` has not returned. */
    count: number;
  } = { portion: [], left: [], stop: new AbortController(), count: 0 };

  const deletePortion = async (size: number): Promise<void> => {
    const stop = state.stop = new AbortController();
    state.portion = state.left.slice(0, size);
    state.left = state.left.slice(size);
    try {
      state.count += await deleteFlows("udp", family, runner, state.portion, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      state.left = [...state.portion, ...state.left];
    } finally {
      state.portion = [];
    }
  };

  return {
    /** Deletes flows for a limited time. Resolves with those that are left; throws if conntrack fails. */
    async run(flows: readonly StaleFlows[]): Promise<readonly StaleFlows[]> {
      state.left = flows;
      try {
        const endMs = clock.monotonic() + LONGEST_DELETION_MS;
        for (let size = SMALLEST_PORTION; state.left.length > 0 && clock.monotonic() < endMs;) {
          const beganMs = clock.monotonic();
          await deletePortion(size);
          if (clock.monotonic() - beganMs < SHORT_MS) size *= 2;
        }
        return state.left;
      } finally {
        state.left = [];
      }
    },
    /** Leaves out the flows to endpoints of a service port, also if they are being deleted. */
    spareUsedBy(port: ServicePort): void {
      if (state.left.length + state.portion.length === 0) return;
      const isStale = notUsedBy(port);
      state.left = state.left.filter(isStale);
      if (state.portion.every(isStale)) return;
      state.portion = state.portion.filter(isStale);
      state.stop.abort();
    },
    /** The entries deleted since the last call. */
    takeCount(): number {
      const { count } = state;
      state.count = 0;
      return count;
    },
  };
}

/** Selects the flows that lead to no endpoint of a service port. */
function notUsedBy(port: ServicePort): (flows: StaleFlows) => boolean {
  const frontends = new Set(udpFrontendsOf(port)), endpoints = endpointsOf(port);
  return ({ frontend, answeredBy }) => !frontends.has(frontend) || !endpoints.has(answeredBy);
}

/** The UDP frontends that the kernel served before the first sync and no service has: they were deleted while no proxy ran. */
function deletedFrontends(earlier: ReadonlySet<UdpFrontend>, known: KnownServicePorts): readonly UdpFrontend[] {
  if (earlier.size === 0) return [];
  const current = new Set<UdpFrontend>();
  for (const port of known.servicePorts()) {
    if (port.protocol === "udp") { for (const frontend of udpFrontendsOf(port)) current.add(frontend); }
  }
  return [...earlier].filter((frontend) => {
    // IPVS serves a node port as one frontend per address of the node.
    const onAnyAddress = udpFrontend(undefined, splitHostPort(frontend).port);
    return !current.has(frontend) && !current.has(onAnyAddress);
  });
}

/** Stale flows, and the noted frontend to which they lead: that of a node port stands for many destinations. */
interface StaleFlows extends Flows {
  readonly frontend: UdpFrontend;
}

/** Finds the stale flows of the noted frontends, with as short a listing as possible. Throws if conntrack fails. */
async function findStaleFlows(
  notes: Notes,
  known: KnownServicePorts,
  family: Family,
  runner: Runner,
): Promise<readonly StaleFlows[]> {
  const endpointsAt = (frontend: UdpFrontend) => {
    const key = notes.get(frontend)?.key;
    return endpointsOf(key === undefined ? undefined : known.servicePort(key));
  };
  const noted = Array.from(notes, ([frontend, { lost }]) => ({ frontend, lost, endpoints: endpointsAt(frontend) }));
  const gone = noted.flatMap(({ frontend, lost, endpoints }) =>
    Array.from(lost?.difference(endpoints) ?? [], (answeredBy) => ({ frontend, destination: frontend, answeredBy }))
  );
  const isComplete = noted.every(({ lost }) => lost !== undefined);
  if (isComplete && gone.length <= 1) return gone;
  const sole = (values: readonly string[]) => new Set(values).size === 1 ? values[0] : undefined;
  const only = {
    destination: sole(noted.map(({ frontend }) => frontend)),
    answeredBy: isComplete ? sole(gone.map(({ answeredBy }) => answeredBy)) : undefined,
    isTranslated: noted.every(({ lost, endpoints }) => lost !== undefined || endpoints.size === 0),
  };
  const listed = new Map<string, StaleFlows>();
  await listFlows("udp", family, runner, only, (flow) => {
    const onAnyAddress = udpFrontend(undefined, splitHostPort(flow.destination).port);
    const frontend = notes.has(flow.destination) ? flow.destination : onAnyAddress;
    if (notes.has(frontend)) listed.set(`${flow.destination} ${flow.answeredBy}`, { frontend, ...flow });
  });
  // Some endpoints may have come back since the listing began.
  return [...listed.values()].filter(({ frontend, destination, answeredBy }) => {
    const endpoints = endpointsAt(frontend);
    if (endpoints.has(answeredBy) || endpoints.has(udpFrontend(undefined, splitHostPort(answeredBy).port))) {
      return false;
    }
    return endpoints.size > 0 || answeredBy !== destination;
  });
}

/** The endpoints that may answer a service port's flows, as `address:port`; a port of the relay as `*:port`. */
function endpointsOf(port: ServicePort | undefined): Set<string> {
  if (port === undefined) return new Set();
  const relay = relayPortsOf(port).map((relayPort) => udpFrontend(undefined, relayPort));
  return new Set([...port.clusterEndpoints, ...port.localEndpoints, ...port.lingeringEndpoints, ...relay]);
}

function udpFrontendsOf(servicePort: ServicePort): UdpFrontend[] {
  return frontendsOf(servicePort).map(({ address, port }) => udpFrontend(address || undefined, port));
}

/** The endpoints that a service port has lost; undefined if flows to others may be stale, too. */
function lostBy(
  previous: ServicePort | undefined,
  next: ServicePort,
  isStart: boolean,
): ReadonlySet<string> | undefined | "nothing" {
  const before = endpointsOf(previous), after = endpointsOf(next), lost = before.difference(after);
  if (previous === undefined) return isStart || after.size > 0 ? undefined : "nothing";
  if (before.size === 0 && after.size > 0 || gainsFrontend(previous, next)) return undefined;
  return lost.size > 0 ? lost : "nothing";
}

function gainsFrontend(previous: ServicePort, next: ServicePort): boolean {
  if (!new Set(udpFrontendsOf(next)).isSubsetOf(new Set(udpFrontendsOf(previous)))) return true;
  // The node port may have gained an address of the node.
  const before = nodePortOf(previous)?.destinations, after = nodePortOf(next)?.destinations;
  return before !== undefined && (after === undefined || !new Set(after).isSubsetOf(new Set(before)));
}

/**
 * Removes the conntrack entries of connection attempts that an endpoint has not answered, once the endpoint is left out of
 * the rules: the client's next SYN packet, a second after its first, then goes to another endpoint instead of following the
 * entry.
 */
interface UnansweredCleaner {
  /** Notes a delta that is about to be applied to the known service ports. */
  noteDelta(known: Pick<KnownServicePorts, "servicePort">, delta: FamilyDelta): void;
  /**
   * Starts to remove the entries of the noted endpoints, when the rules are in effect, and does not wait for it. Starts no tool if
   * none was noted. A failure is logged and not retried: the attempts end by themselves.
   * @returns the time after which to call again, in milliseconds; undefined if nothing is left to start
   */
  clean(): number | undefined;
}

/** Creates a cleaner without notes. */
export function createUnansweredCleaner({ family, runner, logger, clock }: CleanerOptions): UnansweredCleaner {
  const noted = new Set<string>(), passes = createPasses(clock);
  const clean = async () => {
    const endpoints = [...noted];
    noted.clear();
    try {
      await deleteUnansweredAttempts(family, runner, endpoints);
    } catch (error) {
      logger.warn("cannot move unanswered connection attempts to other endpoints", { error: errorText(error) });
    }
  };
  return {
    noteDelta(known, { set }) {
      for (const { name, protocol, unreachableEndpoints } of set) {
        if (!unreachableEndpoints) continue;
        const before = new Set(known.servicePort(servicePortKey(name, protocol))?.unreachableEndpoints);
        for (const endpoint of unreachableEndpoints) if (!before.has(endpoint)) noted.add(endpoint);
      }
    },
    clean: () => noted.size === 0 ? undefined : passes.start(clean),
  };
}
