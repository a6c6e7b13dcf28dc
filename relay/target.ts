/** The endpoints behind one listener, and the choice among them. */
import type { Clock } from "../platform/mod.ts";
import { balancedList, type ServicePort, type ServicePortKey } from "../core/model/mod.ts";
import type { RelayOptions } from "./contract.ts";

/** Values by name, each for some time. */
interface ExpiringMap<Value> {
  /** Returns a value, or undefined if there is none or its time has passed. */
  get(name: string): Value | undefined;
  /** Sets a value for some time from now. */
  set(name: string, value: Value, forMs: number): void;
  delete(name: string): void;
  isEmpty(): boolean;
}

/** Creates an empty map of at most `size` values; the one that was set longest ago makes room. */
export function createExpiringMap<Value>(clock: Clock, size: number): ExpiringMap<Value> {
  // In the order of setting.
  const values = new Map<string, { readonly value: Value; readonly untilMs: number }>();
  const dropOldest = () => {
    for (const [name, { untilMs }] of values) {
      if (values.size <= size && untilMs > clock.monotonic()) return;
      values.delete(name);
    }
  };
  return {
    get(name) {
      const known = values.get(name);
      return known !== undefined && known.untilMs > clock.monotonic() ? known.value : undefined;
    },
    set(name, value, forMs) {
      values.delete(name);
      values.set(name, { value, untilMs: clock.monotonic() + forMs });
      dropOldest();
    },
    delete: (name) => void values.delete(name),
    isEmpty() {
      dropOldest();
      return values.size === 0;
    },
  };
}

/** The time for which a failed endpoint is tried last: one client per period pays for the next try. */
const DEMOTED_MS = 5000;

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
  /** Notes which endpoint serves the client, for session affinity, and that it works. */
  chosen(target: Target, client: string, endpoint: string): void;
  /** Notes that a TCP endpoint refused, failed or did not answer within its head start. */
  late(endpoint: string): void;
}

/** The endpoints of a target. */
export function endpointsOf({ list, servicePort }: Target): readonly string[] {
  return balancedList(servicePort, list).endpoints;
}

/** The index that a random number in [0, 1) selects; equally often for all if no weight is above 0. */
function pick(count: number, weights: readonly number[] | undefined, random: number): number {
  const sum = weights?.reduce((sum, weight) => sum + weight, 0) ?? 0;
  if (weights === undefined || sum === 0) return Math.floor(random * count);
  let left = Math.floor(random * sum);
  return weights.findIndex((weight) => (left -= weight) < 0);
}

/** The number of session affinity entries, one per client and service port; the oldest one is evicted. */
const AFFINITY_CLIENTS = 50_000;

/** Creates a chooser. A client keeps its endpoint across the lists of a service port, as in the kernel's modes. */
export function createChooser(
  { clock, random = Math.random, mayConnect = () => true }: Pick<RelayOptions, "clock" | "mayConnect" | "random">,
): Chooser {
  const affinity = createExpiringMap<string>(clock, AFFINITY_CLIENTS);
  const failed = createExpiringMap<true>(clock, Infinity);
  const isFailed = (target: Target, endpoint: string) =>
    target.servicePort.protocol === "tcp" && !!failed.get(endpoint);
  const firstOf = (target: Target): string | undefined => {
    const { endpoints, weights } = balancedList(target.servicePort, target.list);
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
      const { affinitySeconds, protocol } = target.servicePort;
      if (affinitySeconds > 0) affinity.set(clientOf(target, client), endpoint, affinitySeconds * 1000);
      if (protocol === "tcp") failed.delete(endpoint);
    },
    late: (endpoint) => failed.set(endpoint, true, DEMOTED_MS),
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
