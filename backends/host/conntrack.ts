import {
  type Family,
  type FamilyDelta,
  frontendsOf,
  relayPortsOf,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncFigures,
  type SyncProblem,
} from "../../core/model/mod.ts";
import { type Clock, errorText, joinHostPort, type Logger, splitHostPort, waitAtMost } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";
import { deleteUdpFlows, deleteUnansweredAttempts, listUdpFlows, type UdpFlow } from "./conntrack_tool.ts";

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
  /** Notes a delta that is about to be applied to the known service ports. */
  noteDelta(known: KnownServicePorts, delta: FamilyDelta): void;
  /**
   * Notes the UDP frontends that the kernel served before the first sync; frontends that no known service port has were
   * deleted.
   */
  noteEarlier(frontends: ReadonlySet<UdpFrontend>, known: KnownServicePorts): void;
  /**
   * Removes the entries that the noted changes have made stale; to be called when the rules are in effect. Does nothing, and
   * starts no tool, if nothing was noted. If conntrack fails, keeps the notes, logs the failure and returns it as a problem. A
   * cleanup that takes more than a second continues during the following syncs; the first call after its end returns its
   * result.
   */
  clean(logger: Logger, clock: Clock): Promise<CleaningResult>;
}

/** The number of entries that a cleanup removed, and the problem if it failed. */
interface CleaningResult {
  readonly deleted: number;
  readonly problem: SyncProblem | undefined;
}

/** The time that a sync waits for a cleanup, in milliseconds. */
const LONGEST_WAIT_MS = 1_000;

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
interface SyncedRules {
  problems(): SyncProblem[];
  /** The UDP frontends that the kernel served before the first sync; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/**
 * Removes stale flows after a sync, when its rules are in effect. A failure does not fail the sync.
 * @returns the problems of the sync and the removal, and the counts of the removal
 */
export async function cleanAfterSync(
  cleaner: ConntrackCleaner,
  rules: SyncedRules,
  known: KnownServicePorts,
  { logger, clock }: { readonly logger: Logger; readonly clock: Clock },
): Promise<
  {
    readonly problems: readonly SyncProblem[];
    readonly figures: Pick<SyncFigures, "conntrack_deleted" | "conntrack_ms">;
  }
> {
  const problems = rules.problems();
  const startedMs = clock.monotonic();
  cleaner.noteEarlier(rules.takeEarlierUdpFrontends(), known);
  const { deleted, problem } = await cleaner.clean(logger, clock);
  if (problem) problems.push(problem);
  return { problems, figures: { conntrack_deleted: deleted, conntrack_ms: clock.monotonic() - startedMs } };
}

/** Creates a cleaner without notes. */
export function createConntrackCleaner(family: Family, runner: Runner): ConntrackCleaner {
  const notes: Notes = { changed: new Map(), gone: new Set(), isNoted: false };
  let running: Promise<void> | undefined;
  let result: CleaningResult | undefined;

  /** Cleans until no change was noted in the meantime. */
  const cleanAll = async (logger: Logger): Promise<void> => {
    let deleted = 0, problem: SyncProblem | undefined;
    try {
      do {
        notes.isNoted = false;
        deleted += await removeStaleFlows(notes, family, runner);
      } while (notes.isNoted);
    } catch (error) {
      logger.warn("cannot remove stale UDP flows, retrying with the next sync", { error: errorText(error) });
      const message = `cannot remove stale UDP flows, retrying with the next sync: ${errorText(error)}`;
      problem = { code: "stale-flows-kept", servicePort: undefined, message };
    }
    result = { deleted: deleted + (result?.deleted ?? 0), problem };
    running = undefined;
  };

  return {
    noteDelta(known, delta) {
      const set = new Map<ServicePortKey, ServicePort>();
      for (const port of delta.set) {
        if (port.protocol === "udp") set.set(servicePortKey(port.name, port.protocol), port);
      }
      // Deletions come first: another service port may take over the frontends in the same delta.
      for (const key of delta.deleted) noteChange(notes, known.servicePort(key), undefined);
      if (delta.base === undefined) {
        for (const port of known.servicePorts()) {
          if (port.protocol === "udp" && !set.has(servicePortKey(port.name, port.protocol))) {
            noteChange(notes, port, undefined);
          }
        }
      }
      for (const [key, port] of set) noteChange(notes, known.servicePort(key), port);
    },
    noteEarlier(frontends, known) {
      if (frontends.size === 0) return;
      const current = new Set<UdpFrontend>();
      for (const port of known.servicePorts()) {
        if (port.protocol === "udp") { for (const frontend of udpFrontendsOf(port)) current.add(frontend); }
      }
      for (const frontend of frontends) {
        // IPVS serves a node port as one frontend per address of the node.
        const onAnyAddress = udpFrontend(undefined, splitHostPort(frontend).port);
        if (!current.has(frontend) && !current.has(onAnyAddress)) notes.gone.add(frontend);
      }
      notes.isNoted = true;
    },
    async clean(logger, clock) {
      running ??= cleanAll(logger);
      await waitAtMost(clock, LONGEST_WAIT_MS, running);
      const done = result ?? { deleted: 0, problem: undefined };
      result = undefined;
      return done;
    },
  };
}

/** The changes since the last cleanup. */
interface Notes {
  /** The changed service ports. */
  readonly changed: Map<ServicePortKey, ServedFlows>;
  /** The frontends that no service port has any more. */
  readonly gone: Set<UdpFrontend>;
  /** Whether a change was noted since the last cleanup began. */
  isNoted: boolean;
}

/** The flows of a service port. */
interface ServedFlows {
  /** Its earlier frontends, which it may have lost. */
  readonly before: ReadonlySet<UdpFrontend>;
  readonly frontends: readonly UdpFrontend[];
  /** The endpoints that may answer them, as `address:port`; a port of the relay as `*:port`. */
  readonly endpoints: ReadonlySet<string>;
}

/** The endpoints of a frontend that no service port has any more. */
const NO_ENDPOINTS: ReadonlySet<string> = new Set();

function noteChange(notes: Notes, previous: ServicePort | undefined, next: ServicePort | undefined): void {
  const { changed, gone } = notes;
  const port = next ?? previous;
  if (port?.protocol !== "udp") return;
  const key = servicePortKey(port.name, port.protocol);
  notes.isNoted = true;
  if (!next) {
    changed.delete(key);
    for (const frontend of udpFrontendsOf(port)) gone.add(frontend);
    return;
  }
  const frontends = udpFrontendsOf(next), endpoints = endpointsOf(next);
  for (const frontend of frontends) gone.delete(frontend);
  const pending = changed.get(key);
  if (pending || mayCauseStaleFlows(previous, next)) {
    const before = [...pending?.before ?? [], ...previous ? udpFrontendsOf(previous) : []];
    changed.set(key, { before: new Set(before), frontends, endpoints });
  }
}

/** Removes the entries that the noted changes have made stale; keeps the notes if that fails. */
async function removeStaleFlows({ changed, gone }: Notes, family: Family, runner: Runner): Promise<number> {
  if (changed.size === 0 && gone.size === 0) return 0;
  const services = [...changed], left = [...gone];
  // Notes that arrive while conntrack runs are for the next call.
  changed.clear();
  gone.clear();
  const byFrontend = new Map<UdpFrontend, ReadonlySet<string>>();
  for (const frontend of left) byFrontend.set(frontend, NO_ENDPOINTS);
  for (const [, { before, endpoints }] of services) {
    for (const frontend of before) byFrontend.set(frontend, endpoints);
  }
  // Last, since one service port may have taken over a frontend of another.
  for (const [, { frontends, endpoints }] of services) {
    for (const frontend of frontends) byFrontend.set(frontend, endpoints);
  }
  const stale: UdpFlow[] = [];
  try {
    await listUdpFlows(family, runner, (flow) => {
      const port = Number(flow.destinationPort), destination = udpFrontend(flow.destination, port);
      const endpoints = byFrontend.get(destination) ?? byFrontend.get(udpFrontend(undefined, port));
      if (!endpoints || endpoints.has(flow.answeredBy)) return;
      if (endpoints.has(udpFrontend(undefined, splitHostPort(flow.answeredBy).port))) return;
      if (endpoints.size > 0 || flow.answeredBy !== destination) stale.push(flow);
    });
    await deleteUdpFlows(family, runner, stale);
  } catch (error) {
    for (const [key, flows] of services) {
      const isDeleted = flows.frontends.some((frontend) => gone.has(frontend));
      if (!changed.has(key) && !isDeleted) changed.set(key, flows);
    }
    for (const frontend of left) gone.add(frontend);
    throw error;
  }
  return stale.length;
}

function endpointsOf(port: ServicePort | undefined): Set<string> {
  if (port === undefined) return new Set();
  const relay = relayPortsOf(port).map((relayPort) => udpFrontend(undefined, relayPort));
  return new Set([...port.clusterEndpoints, ...port.localEndpoints, ...port.lingeringEndpoints, ...relay]);
}

function udpFrontendsOf(servicePort: ServicePort): UdpFrontend[] {
  return frontendsOf(servicePort).map(({ address, port }) => udpFrontend(address || undefined, port));
}

/** Whether a service port is new, gained its first endpoint, lost an endpoint, or gained a frontend. */
function mayCauseStaleFlows(previous: ServicePort | undefined, next: ServicePort): boolean {
  const before = endpointsOf(previous), after = endpointsOf(next);
  if (!previous || before.size === 0 && after.size > 0) return true;
  for (const endpoint of before) if (!after.has(endpoint)) return true;
  const known = new Set(udpFrontendsOf(previous));
  return udpFrontendsOf(next).some((frontend) => !known.has(frontend));
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
   * Removes the entries of the noted endpoints; to be called when the rules are in effect. Starts no tool if none was noted.
   * A failure is logged and not retried: the attempts end by themselves.
   */
  clean(): Promise<void>;
}

/** Inputs of `createUnansweredCleaner`. */
interface UnansweredCleanerOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly logger: Logger;
}

/** Creates a cleaner without notes. */
export function createUnansweredCleaner({ family, runner, logger }: UnansweredCleanerOptions): UnansweredCleaner {
  const noted = new Set<string>();
  return {
    noteDelta(known, { set }) {
      for (const { name, protocol, unreachableEndpoints } of set) {
        if (!unreachableEndpoints) continue;
        const before = new Set(known.servicePort(servicePortKey(name, protocol))?.unreachableEndpoints);
        for (const endpoint of unreachableEndpoints) if (!before.has(endpoint)) noted.add(endpoint);
      }
    },
    async clean() {
      if (noted.size === 0) return;
      const endpoints = [...noted];
      noted.clear();
      try {
        await deleteUnansweredAttempts(family, runner, endpoints);
      } catch (error) {
        logger.warn("cannot move unanswered connection attempts to other endpoints", { error: errorText(error) });
      }
    },
  };
}
