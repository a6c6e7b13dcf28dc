/** The endpoints behind one listener, and the choice among them. */
import type { Clock } from "../platform/mod.ts";
import type { ServicePort, ServicePortKey } from "../core/model/mod.ts";
import type { RelayOptions } from "./contract.ts";

/** The endpoints that clients with session affinity used last, within a bound. */
interface AffinityTable {
  /** Returns the endpoint of a client, or undefined if it has none or its time has passed. */
  get(client: string): string | undefined;
  /** Stores the endpoint of a client for `seconds` from now; every connection renews it. */
  put(client: string, endpoint: string, seconds: number): void;
}

interface Remembered {
  readonly endpoint: string;
  readonly untilMs: number;
}

/** Creates an empty table for at most `size` clients; the one that was renewed longest ago makes room. */
export function createAffinityTable(clock: Clock, size: number): AffinityTable {
  // In the order of renewal.
  const clients = new Map<string, Remembered>();
  const dropOldest = () => {
    for (const [client, { untilMs }] of clients) {
      if (clients.size <= size && untilMs > clock.monotonic()) return;
      clients.delete(client);
    }
  };
  return {
    get(client) {
      const known = clients.get(client);
      return known !== undefined && known.untilMs > clock.monotonic() ? known.endpoint : undefined;
    },
    put(client, endpoint, seconds) {
      clients.delete(client);
      clients.set(client, { endpoint, untilMs: clock.monotonic() + seconds * 1000 });
      dropOldest();
    },
  };
}

/** TCP endpoints that recently did not accept a connection in time. */
export interface FailedDials {
  /** The endpoint refused, failed or did not answer within its head start. */
  add(endpoint: string): void;
  /** The endpoint has accepted a connection. */
  forget(endpoint: string): void;
  has(endpoint: string): boolean;
  /** Whether there is none. */
  isEmpty(): boolean;
}

/** The time for which a failed endpoint is tried last: one client per period pays for the next try. */
const DEMOTED_MS = 5000;

/** Creates an empty set. */
export function createFailedDials(clock: Clock): FailedDials {
  // In order of expiry, since all last equally long.
  const untilMs = new Map<string, number>();
  const expire = () => {
    for (const [endpoint, endMs] of untilMs) {
      if (endMs > clock.monotonic()) return;
      untilMs.delete(endpoint);
    }
  };
  return {
    add(endpoint) {
      expire();
      untilMs.delete(endpoint);
      untilMs.set(endpoint, clock.monotonic() + DEMOTED_MS);
    },
    forget: (endpoint) => void untilMs.delete(endpoint),
    has: (endpoint) => (untilMs.get(endpoint) ?? 0) > clock.monotonic(),
    isEmpty() {
      expire();
      return untilMs.size === 0;
    },
  };
}

/** The list of endpoints that a listener serves. */
export type EndpointList = "cluster" | "local";

/** The target of a listener's traffic; `servicePort` changes with each delta. */
export interface Target {
  readonly key: ServicePortKey;
  readonly list: EndpointList;
  servicePort: ServicePort;
}

/** Chooses endpoints. */
export interface Chooser {
  /**
   * Yields the endpoints of a target for a client address, each once: first the endpoint by session affinity, or else by
   * weight, then the others at random. Endpoints that recently did not accept a connection come last, unless affinity requires
   * one.
   */
  candidates(target: Target, client: string): Generator<string, void, void>;
  /** Notes which endpoint serves the client, for session affinity. */
  chosen(target: Target, client: string, endpoint: string): void;
}

/** The endpoints of a target. */
export function endpointsOf({ list, servicePort }: Target): readonly string[] {
  return list === "cluster" ? servicePort.clusterEndpoints : servicePort.localEndpoints;
}

/** The weights of the endpoints of a target, in their order; undefined if all are equal. */
function weightsOf({ list, servicePort: { balance } }: Target): readonly number[] | undefined {
  return list === "cluster" ? balance?.clusterWeights : balance?.localWeights;
}

/** The index that a random number in [0, 1) selects; equally often for all if no weight is above 0. */
function pick(count: number, weights: readonly number[] | undefined, random: number): number {
  const sum = weights?.reduce((sum, weight) => sum + weight, 0) ?? 0;
  if (weights === undefined || sum === 0) return Math.floor(random * count);
  let left = Math.floor(random * sum);
  return weights.findIndex((weight) => (left -= weight) < 0);
}

/** Inputs of `createChooser`. */
export interface ChooserOptions {
  readonly affinity: AffinityTable;
  /** TCP endpoints to try last. */
  readonly failed: Pick<FailedDials, "has" | "isEmpty">;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  /** See `RelayOptions`. */
  readonly mayConnect?: RelayOptions["mayConnect"];
}

/** Creates a chooser. A client keeps its endpoint across the lists of a service port, as in the kernel's modes. */
export function createChooser({ affinity, failed, random, mayConnect = () => true }: ChooserOptions): Chooser {
  const isFailed = (target: Target, endpoint: string) => target.servicePort.protocol === "tcp" && failed.has(endpoint);
  const firstOf = (target: Target): string | undefined => {
    const endpoints = endpointsOf(target), weights = weightsOf(target);
    if (failed.isEmpty()) return endpoints[pick(endpoints.length, weights, random())];
    const all = [...endpoints.keys()];
    const working = all.filter((i) => !isFailed(target, endpoints[i]!));
    const some = working.length > 0 ? working : all;
    return endpoints[some[pick(some.length, weights && some.map((i) => weights[i]!), random())]!];
  };
  const all = function* (target: Target, client: string): Generator<string, void, void> {
    const endpoints = endpointsOf(target);
    const kept = target.servicePort.affinitySeconds > 0 ? affinity.get(clientOf(target, client)) : undefined;
    const first = kept !== undefined && endpoints.includes(kept) ? kept : firstOf(target);
    if (first === undefined) return;
    yield first;
    // Most connections end here, so that a long list is not copied for them.
    const working: string[] = [], last: string[] = [];
    for (const endpoint of endpoints) {
      if (endpoint !== first) (isFailed(target, endpoint) ? last : working).push(endpoint);
    }
    for (const some of [working, last]) {
      while (some.length > 0) yield take(some, Math.floor(random() * some.length));
    }
  };
  return {
    *candidates(target, client) {
      const { protocol } = target.servicePort;
      for (const endpoint of all(target, client)) if (mayConnect(endpoint, protocol)) yield endpoint;
    },
    chosen(target, client, endpoint) {
      const { affinitySeconds } = target.servicePort;
      if (affinitySeconds > 0) affinity.put(clientOf(target, client), endpoint, affinitySeconds);
    },
  };
}

function clientOf({ key }: Target, client: string): string {
  return `${key} ${client}`;
}

/** Removes one element, in constant time. */
function take(list: string[], index: number): string {
  const taken = list[index]!;
  const last = list.pop()!;
  if (index < list.length) list[index] = last;
  return taken;
}
