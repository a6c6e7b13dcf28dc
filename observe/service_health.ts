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
import { type ClockAndLogger, errorText, type Family, otherFamily, sameData } from "../platform/mod.ts";

/** Answers on each service's health check node port whether this node has ready endpoints of the service. */
export interface ServiceHealth {
  /**
   * Applies changes: opens, closes and hands over ports. Also reads the addresses again and retries the ports that could
   * not be opened, as happens every 5 seconds while there are any.
   */
  apply(changes: HealthCheckChanges): void;
  /** Notes how many local endpoints of each service the rules in effect use: answers report no more than these. */
  inEffect(family: Family, localReadyEndpoints: ReadonlyMap<ServiceKey, number>): void;
}

interface ServiceHealthOptions extends ClockAndLogger {
  /** Returns the addresses to listen on; undefined or an empty list for every address of the host, as in kube-proxy. */
  readonly addresses: () => readonly string[] | undefined;
  /** Whether the proxy itself keeps up: if not, every answer is 503. */
  readonly isHealthy: () => boolean;
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
  owner: ServiceKey;
  readonly listeners: Map<string, HttpListener>;
}

const EVERY_ADDRESS: readonly string[] = ["::"];
const BETWEEN_TRIES_MS = 5_000;

/** Creates kube-proxy's health check servers, without services at first; ports that cannot be opened are retried. */
export function createServiceHealth(options: ServiceHealthOptions): ServiceHealth {
  const { isHealthy, clock, signal } = options;
  const checks = new Map<ServiceKey, HealthCheck>();
  const synced = new Map<ServiceKey, Map<Family, number>>();
  const slots = new Map<number, Slot>();
  const problems = new Map<ServiceKey, string>();
  let addresses = EVERY_ADDRESS;
  let cancelRetry: (() => void) | undefined;
  const { open, close } = createOpener(options, (owner, family) => {
    const check = checks.get(owner);
    if (check === undefined) return answerFor("", "", 0, isHealthy());
    return answerFor(check.namespace, check.name, countFor(family, check, synced.get(owner)), isHealthy());
  });

  /** Opens the ports of all services and closes the others. A port that only passes to another service stays open. */
  const serveAll = () => {
    for (const [key, { port }] of checks) {
      const slot = slots.get(port);
      if (slot === undefined) slots.set(port, { owner: key, listeners: new Map() });
      else if (checks.get(slot.owner)?.port !== port) slot.owner = key;
    }
    for (const [port, slot] of slots) {
      const isWanted = checks.get(slot.owner)?.port === port;
      close(slot, isWanted ? addresses : []);
      if (!isWanted) slots.delete(port);
    }
    for (const [key, { port }] of checks) {
      const slot = slots.get(port)!;
      const why = slot.owner === key ? open(port, slot, addresses) : `Service ${slot.owner} has the same one`;
      const problem = why && `port ${port}: ${why}`;
      if (why !== undefined && problems.get(key) !== problem) options.onFailure?.(key, port, why);
      if (problem === undefined) problems.delete(key);
      else problems.set(key, problem);
    }
  };

  const refresh = (haveMoved = false) => {
    cancelRetry?.();
    cancelRetry = undefined;
    const before = addresses;
    // Listing the host's addresses costs more than the rest of a change.
    if (checks.size > 0) addresses = options.addresses() ?? [];
    if (addresses.length === 0) addresses = EVERY_ADDRESS;
    if (haveMoved || problems.size > 0 || !sameData(addresses, before)) serveAll();
    const code = "health-check-port-closed";
    const closed = Array.from(problems, ([key, detail]) => ({ code, subject: `Service ${key}`, detail }) as const);
    options.onProblems("health check node ports", closed);
    if (problems.size > 0) cancelRetry = clock.schedule(BETWEEN_TRIES_MS, () => refresh());
  };

  signal.addEventListener("abort", () => {
    cancelRetry?.();
    slots.forEach((slot) => close(slot));
  }, { once: true });

  return {
    apply({ set, deleted }) {
      if (signal.aborted) return;
      let haveMoved = deleted.length > 0;
      for (const key of deleted) [checks, synced, problems].forEach((one) => one.delete(key));
      for (const check of set) {
        const key = serviceKey(check.namespace, check.name);
        haveMoved ||= checks.get(key)?.port !== check.port;
        checks.set(key, check);
      }
      refresh(haveMoved);
    },
    inEffect(family, localReadyEndpoints) {
      for (const [key, count] of localReadyEndpoints) {
        if (!checks.has(key)) continue;
        const counts = synced.get(key) ?? new Map<Family, number>();
        synced.set(key, counts.set(family, count));
      }
    },
  };
}

/** Opens and closes the listeners of ports, which answer for the owner of their slot. */
function createOpener(
  { clock, logger, limits, open, mostListeners = Infinity }: ServiceHealthOptions,
  answer: (owner: ServiceKey, family: Family) => HttpAnswer,
) {
  const listening = { clock, logger: logger.with({ server: "health check node ports" }), limits, open };
  let descriptors = 0;
  return {
    close(slot: Slot, stillWanted: readonly string[] = []): void {
      for (const [address, listener] of slot.listeners) {
        if (stillWanted.includes(address)) continue;
        listener.close();
        descriptors -= listener.descriptors;
        slot.listeners.delete(address);
      }
    },
    /** Opens a port on each of these addresses where it is not open yet; returns the reason if that fails for one. */
    open(port: number, slot: Slot, addresses: readonly string[]): string | undefined {
      const handler = ({ family = "IPv4" }: HttpRequest) => answer(slot.owner, family);
      const failures: string[] = [];
      for (const address of addresses) {
        if (slot.listeners.has(address)) continue;
        if (descriptors >= mostListeners) {
          failures.push(`the limit of open files leaves room for ${mostListeners} listeners, and they are in use`);
          continue;
        }
        try {
          const listener = listenHttp({ address, port, handler, ...listening });
          descriptors += listener.descriptors;
          slot.listeners.set(address, listener);
        } catch (error) {
          failures.push(`cannot listen on ${address}: ${errorText(error)}`);
        }
      }
      return failures.length === 0 ? undefined : failures.join("; ");
    },
  };
}

/** Counts a service's endpoints for a client of a family. A single-family service answers clients of both families. */
function countFor(family: Family, check: HealthCheck, synced: ReadonlyMap<Family, number> | undefined): number {
  const counted = check.localReadyEndpoints[family] === undefined ? otherFamily(family) : family;
  return Math.min(check.localReadyEndpoints[counted] ?? 0, synced?.get(counted) ?? 0);
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
