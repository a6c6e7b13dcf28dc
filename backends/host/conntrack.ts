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
   * Removes the entries that the noted changes have made stale, when the rules of a sync are in effect. Starts no tool if
   * nothing was noted. If conntrack fails, keeps the notes, logs the failure and returns it as a problem; it does not fail the
   * sync. A cleanup that takes more than a second continues during the following syncs; the first call after its end returns
   * its result.
   * @returns the problems of the sync and the removal, and the counts of the removal
   */
  afterSync(rules: SyncedRules, known: KnownServicePorts): Promise<{
    readonly problems: readonly SyncProblem[];
    readonly figures: Pick<SyncFigures, "conntrack_deleted" | "conntrack_ms">;
  }>;
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

/** Inputs of `createConntrackCleaner`. */
interface CleanerOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Creates a cleaner without notes. */
export function createConntrackCleaner({ family, runner, logger, clock }: CleanerOptions): ConntrackCleaner {
  /**
   * The frontends whose flows may be stale, and the service port that serves each, or did last. The endpoints that may answer
   * them are those of the service port when the cleanup begins.
   */
  const notes = new Map<UdpFrontend, ServicePortKey | undefined>();
  let running: Promise<void> | undefined;
  let deleted = 0, problem: SyncProblem | undefined;

  const noteFrontends = (key: ServicePortKey, port: ServicePort | undefined) => {
    if (port?.protocol !== "udp") return;
    for (const frontend of udpFrontendsOf(port)) notes.set(frontend, key);
  };
  /** Cleans until no change was noted in the meantime. */
  const cleanAll = async (known: KnownServicePorts): Promise<void> => {
    try {
      do deleted += await removeStaleFlows(notes, known, family, runner); while (notes.size > 0);
      // A failure that no sync has reported yet is over.
      problem = undefined;
    } catch (error) {
      logger.warn("cannot remove stale UDP flows, retrying with the next sync", { error: errorText(error) });
      const message = `cannot remove stale UDP flows, retrying with the next sync: ${errorText(error)}`;
      problem = { code: "stale-flows-kept", servicePort: undefined, message };
    }
    running = undefined;
  };

  return {
    noteDelta(known, delta) {
      const set = new Map<ServicePortKey, ServicePort>();
      for (const port of delta.set) {
        if (port.protocol === "udp") set.set(servicePortKey(port.name, port.protocol), port);
      }
      // Former frontends come first: another service port may take them over in the same delta.
      for (const key of delta.deleted) noteFrontends(key, known.servicePort(key));
      if (delta.base === undefined) {
        for (const port of known.servicePorts()) {
          const key = servicePortKey(port.name, port.protocol);
          if (!set.has(key)) noteFrontends(key, port);
        }
      }
      const changed = [...set].filter(([key, port]) => mayCauseStaleFlows(known.servicePort(key), port));
      for (const [key] of changed) noteFrontends(key, known.servicePort(key));
      for (const [key, port] of changed) noteFrontends(key, port);
    },
    async afterSync(rules, known) {
      const problems = rules.problems(), startedMs = clock.monotonic();
      for (const frontend of deletedFrontends(rules.takeEarlierUdpFrontends(), known)) notes.set(frontend, undefined);
      running ??= cleanAll(known);
      await waitAtMost(clock, LONGEST_WAIT_MS, running);
      if (problem) problems.push(problem);
      const figures = { conntrack_deleted: deleted, conntrack_ms: clock.monotonic() - startedMs };
      deleted = 0;
      problem = undefined;
      return { problems, figures };
    },
  };
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

/** Removes the stale entries of the noted frontends; keeps the notes if that fails. */
async function removeStaleFlows(
  notes: Map<UdpFrontend, ServicePortKey | undefined>,
  known: KnownServicePorts,
  family: Family,
  runner: Runner,
): Promise<number> {
  if (notes.size === 0) return 0;
  const noted = [...notes];
  // Notes that arrive while conntrack runs are for the next call.
  notes.clear();
  const byFrontend = new Map(
    noted.map(([frontend, key]) => [frontend, endpointsOf(key === undefined ? undefined : known.servicePort(key))]),
  );
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
    for (const [frontend, key] of noted) if (!notes.has(frontend)) notes.set(frontend, key);
    throw error;
  }
  return stale.length;
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

/** Whether a service port is new, gained its first endpoint, lost an endpoint, or gained a frontend. */
function mayCauseStaleFlows(previous: ServicePort | undefined, next: ServicePort): boolean {
  const before = endpointsOf(previous), after = endpointsOf(next);
  if (!previous || before.size === 0 && after.size > 0 || !before.isSubsetOf(after)) return true;
  return !new Set(udpFrontendsOf(next)).isSubsetOf(new Set(udpFrontendsOf(previous))) ||
    mayGainNodePort(previous, next);
}

/** Whether a node port may have gained an address of the node. */
function mayGainNodePort({ nodePortPrefixes: before }: ServicePort, { nodePortPrefixes: after }: ServicePort): boolean {
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
   * Removes the entries of the noted endpoints; to be called when the rules are in effect. Starts no tool if none was noted.
   * A failure is logged and not retried: the attempts end by themselves.
   */
  clean(): Promise<void>;
}

/** Creates a cleaner without notes. */
export function createUnansweredCleaner({ family, runner, logger }: Omit<CleanerOptions, "clock">): UnansweredCleaner {
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
