/** The endpoints behind one listener, and the choice among them. */
import type { ServicePort, ServicePortKey } from "../core/model/mod.ts";
import type { AffinityTable } from "./affinity.ts";
import type { RelayOptions } from "./contract.ts";

/** The list of endpoints that a listener serves. */
export type EndpointList = "cluster" | "local";

/** What a listener carries its traffic to; `servicePort` changes with each delta. */
export interface Target {
  readonly key: ServicePortKey;
  readonly list: EndpointList;
  servicePort: ServicePort;
}

/** Chooses endpoints. */
export interface Chooser {
  /**
   * Yields the endpoints of a target for a client address, each one once: the one that session affinity asks for or one by
   * weight, then the others at random.
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

/** The index that a random number in [0, 1) selects. */
function pick(count: number, weights: readonly number[] | undefined, random: number): number {
  if (weights === undefined) return Math.floor(random * count);
  let left = Math.floor(random * weights.reduce((sum, weight) => sum + weight, 0));
  return weights.findIndex((weight) => (left -= weight) < 0);
}

/** Creates a chooser. A client keeps its endpoint across the lists of a service port, as in the kernel's modes. */
export function createChooser(
  affinity: AffinityTable,
  random: () => number,
  mayConnect: RelayOptions["mayConnect"] = () => true,
): Chooser {
  const all = createOpenChooser(affinity, random);
  return {
    *candidates(target, client) {
      const { protocol } = target.servicePort;
      for (const endpoint of all.candidates(target, client)) if (mayConnect(endpoint, protocol)) yield endpoint;
    },
    chosen: all.chosen,
  };
}

/** A chooser among all endpoints. */
function createOpenChooser(affinity: AffinityTable, random: () => number): Chooser {
  return {
    *candidates(target, client) {
      const endpoints = endpointsOf(target);
      const wanted = target.servicePort.affinitySeconds > 0 ? affinity.get(clientOf(target, client)) : undefined;
      const first = wanted !== undefined && endpoints.includes(wanted)
        ? wanted
        : endpoints[pick(endpoints.length, weightsOf(target), random())];
      if (first === undefined) return;
      yield first;
      // Most connections end here, so that a long list is not copied for them.
      const others = endpoints.filter((endpoint) => endpoint !== first);
      while (others.length > 0) yield take(others, Math.floor(random() * others.length));
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
