import type { HealthCheck, HealthCheckChanges } from "../core/planning/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import { type ServiceKey, serviceKey } from "../core/tracking/mod.ts";
import {
  type ConnectionLimits,
  type HttpAnswer,
  type HttpListener,
  type HttpRequest,
  listenHttp,
  type OpenPort,
} from "../platform/http/mod.ts";
import { type Clock, errorText, type Family, type Logger, otherFamily, sameData } from "../platform/mod.ts";

/** Answers on each service's health check node port whether this node has ready endpoints of the service. */
export interface ServiceHealth {
  /** Applies changes: opens, closes and hands over ports. */
  apply(changes: HealthCheckChanges): void;
  /** Notes how many local endpoints of each service the rules in effect use: answers report no more than these. */
  inEffect(family: Family, localReadyEndpoints: ReadonlyMap<ServiceKey, number>): void;
  /**
   * Reads the addresses again and retries the ports that could not be opened. Runs at every `apply`, and every 5
   * seconds while there are problems. Has no effect without services.
   */
  refresh(): void;
}

/** Options of `createServiceHealth`. */
interface ServiceHealthOptions {
  /** Returns the addresses to listen on; undefined or an empty list for every address of the host, as in kube-proxy. */
  readonly addresses: () => readonly string[] | undefined;
  /** Whether the proxy itself keeps up: if not, every answer is 503. */
  readonly isHealthy: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Closes all ports. */
  readonly signal: AbortSignal;
  /** The maximum number of descriptors used for listening; unlimited by default. */
  readonly mostListeners?: number;
  /** Limits shared with other listeners; by default each listener has its own. */
  readonly limits?: ConnectionLimits;
  /** Receives the services whose port is not open on every address; all share one scope. */
  readonly onProblems: ReportProblems;
  /** Called when a port cannot be opened, once for each reason. */
  readonly onFailure?: (service: ServiceKey, port: number, why: string) => void;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
}

/** A port that is open on some addresses, or will be. */
interface Slot {
  /** The service that the port answers for; undefined while it passes from one service to another. */
  owner: ServiceKey | undefined;
  readonly listeners: Map<string, HttpListener>;
}

const EVERY_ADDRESS: readonly string[] = ["::"];
const BETWEEN_TRIES_MS = 5_000;

/**
 * Creates the health check servers, without services at first. They answer like kube-proxy's, and retry ports that
 * cannot be opened.
 */
export function createServiceHealth(options: ServiceHealthOptions): ServiceHealth {
  const { isHealthy, clock, signal } = options;
  const checks = new Map<ServiceKey, HealthCheck>();
  const synced = new Map<ServiceKey, Map<Family, number>>();
  const ports = createPorts(options, (key, { family = "IPv4" }) => {
    const check = key === undefined ? undefined : checks.get(key);
    if (key === undefined || check === undefined) return answerFor("", "", 0, isHealthy());
    return answerFor(check.namespace, check.name, countFor(family, check, synced.get(key)), isHealthy());
  });
  const problems = new Map<ServiceKey, string>();
  let cancelRetry: (() => void) | undefined;

  const tryToServe = (key: ServiceKey) => {
    const check = checks.get(key);
    if (check === undefined) return;
    const why = ports.serve(key, check.port);
    if (why === undefined) {
      problems.delete(key);
      return;
    }
    const problem = `port ${check.port}: ${why}`;
    if (problems.get(key) !== problem) options.onFailure?.(key, check.port, why);
    problems.set(key, problem);
  };

  const refresh = (changed: readonly ServiceKey[] = []) => {
    if (signal.aborted) return;
    cancelRetry?.();
    cancelRetry = undefined;
    // Listing the host's addresses costs more than the rest of a change.
    if (checks.size > 0) {
      new Set(ports.addressesChanged() ? checks.keys() : [...changed, ...problems.keys()]).forEach(tryToServe);
    }
    options.onProblems(
      "health check node ports",
      Array.from(problems, ([key, detail]) => ({
        code: "health-check-port-closed",
        subject: `Service ${key}`,
        detail,
      })),
    );
    if (problems.size > 0) cancelRetry = clock.schedule(BETWEEN_TRIES_MS, () => refresh());
  };

  /** Releases the port of a service; returns it if it stays open for the next owner. */
  const vacate = (key: ServiceKey): number[] => {
    const check = checks.get(key);
    checks.delete(key);
    problems.delete(key);
    return check !== undefined && ports.vacate(key, check.port) ? [check.port] : [];
  };

  signal.addEventListener("abort", () => {
    cancelRetry?.();
    ports.close();
  }, { once: true });

  return {
    apply({ set, deleted }) {
      if (signal.aborted) return;
      const moved = set.filter(({ namespace, name, port }) => checks.get(serviceKey(namespace, name))?.port !== port);
      const movedKeys = moved.map(({ namespace, name }) => serviceKey(namespace, name));
      const vacated = [...deleted, ...movedKeys].flatMap(vacate);
      for (const key of deleted) synced.delete(key);
      for (const check of set) checks.set(serviceKey(check.namespace, check.name), check);
      // A service that waited for one of the vacated ports gets it here.
      refresh(movedKeys);
      for (const port of vacated) ports.closeVacant(port);
    },
    inEffect(family, localReadyEndpoints) {
      for (const [key, count] of localReadyEndpoints) {
        if (!checks.has(key)) continue;
        const counts = synced.get(key) ?? new Map<Family, number>();
        synced.set(key, counts.set(family, count));
      }
    },
    refresh: () => refresh(),
  };
}

/** Counts a service's endpoints for a client of a family. A single-family service answers clients of both families. */
function countFor(family: Family, check: HealthCheck, synced: ReadonlyMap<Family, number> | undefined): number {
  const counted = check.localReadyEndpoints[family] === undefined ? otherFamily(family) : family;
  return Math.min(check.localReadyEndpoints[counted] ?? 0, synced?.get(counted) ?? 0);
}

/** Creates the set of open ports, empty at first. `answer` answers requests about the service that owns a port. */
function createPorts(
  options: ServiceHealthOptions,
  answer: (key: ServiceKey | undefined, request: HttpRequest) => HttpAnswer,
) {
  const { clock, limits, open, mostListeners = Infinity } = options;
  const logger = options.logger.with({ server: "health check node ports" });
  const slots = new Map<number, Slot>();
  let descriptors = 0;
  let addresses = EVERY_ADDRESS;

  const close = (slot: Slot, stillWanted: readonly string[] = []) => {
    for (const [address, listener] of slot.listeners) {
      if (stillWanted.includes(address)) continue;
      listener.close();
      descriptors -= listener.descriptors;
      slot.listeners.delete(address);
    }
  };

  return {
    /** Reads the addresses; returns whether they changed. */
    addressesChanged(): boolean {
      const found = options.addresses() ?? [];
      const before = addresses;
      addresses = found.length === 0 ? EVERY_ADDRESS : found;
      return !sameData(addresses, before);
    },
    /** Opens a service's port on every address where it is not open yet; returns the reason if that fails for one. */
    serve(key: ServiceKey, port: number): string | undefined {
      const slot = slots.get(port) ?? { owner: undefined, listeners: new Map() };
      slots.set(port, slot);
      slot.owner ??= key;
      if (slot.owner !== key) return `Service ${slot.owner} has the same one`;
      close(slot, addresses);
      const failures: string[] = [];
      for (const address of addresses) {
        if (slot.listeners.has(address)) continue;
        if (descriptors >= mostListeners) {
          failures.push(`the limit of open files leaves room for ${mostListeners} listeners, and they are in use`);
          continue;
        }
        const handler = (request: HttpRequest) => answer(slot.owner, request);
        try {
          const listener = listenHttp({ address, port, handler, clock, logger, limits, open });
          descriptors += listener.descriptors;
          slot.listeners.set(address, listener);
        } catch (error) {
          failures.push(`cannot listen on ${address}: ${errorText(error)}`);
        }
      }
      return failures.length === 0 ? undefined : failures.join("; ");
    },
    /** Takes a port from its owner and leaves it open; returns false if the service does not own it. */
    vacate(key: ServiceKey, port: number): boolean {
      const slot = slots.get(port);
      if (slot?.owner !== key) return false;
      slot.owner = undefined;
      return true;
    },
    /** Closes a port unless a service owns it. */
    closeVacant(port: number) {
      const slot = slots.get(port);
      if (slot === undefined || slot.owner !== undefined) return;
      close(slot);
      slots.delete(port);
    },
    /** Closes all ports. */
    close() {
      for (const slot of slots.values()) close(slot);
    },
  };
}

/** kube-proxy's answer, byte for byte. */
function answerFor(namespace: string, name: string, localEndpoints: number, isHealthy: boolean): HttpAnswer {
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: isHealthy };
  return {
    status: localEndpoints > 0 && isHealthy ? 200 : 503,
    contentType: "application/json",
    fields: { "X-Load-Balancing-Endpoint-Weight": String(localEndpoints) },
    body: JSON.stringify(body, null, "\t"),
  };
}
