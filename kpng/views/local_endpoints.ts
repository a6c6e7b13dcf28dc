import type { Service, SliceEndpoint } from "../../core/objects/mod.ts";
import { categorizeEndpoints, type NodeContext, trafficPolicies } from "../../core/planning/mod.ts";
import { FAMILIES } from "../../platform/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { endpointsOfSlices, type ServiceEndpoint } from "../../core/tracking/mod.ts";
import { eachEndpoint, podEndpoints, type SourceEndpoint } from "../messages/mod.ts";

/** The traffic of this node that uses an endpoint. Both may be false for endpoints that only a Sluice receives. */
export interface Scopes {
  internal: boolean;
  external: boolean;
}

/** An endpoint that a node receives. */
export interface LocalEndpoint {
  readonly one: SourceEndpoint;
  readonly scopes: Scopes | undefined;
}

/**
 * The endpoints that a node receives. So that its own planning gets the same result, a Sluice also receives endpoints whose UDP
 * flows may stay and up to two witnesses per port: one usable endpoint if none is used, because packets are then dropped instead
 * of rejected; and one ready endpoint without a node hint, which keeps the node hints of the others from being followed.
 */
export function localEndpoints(state: ServiceState, node: NodeContext, extended: boolean): LocalEndpoint[] {
  const used = usedEndpoints(state, node, extended);
  const chosen = (endpoint: SliceEndpoint) => used.has(endpoint);
  const found = extended ? eachEndpoint(state.slices, chosen) : podEndpoints(state.slices, false, chosen);
  return found.map((one) => ({ one, scopes: used.get(one.endpoint) }));
}

/**
 * How far all nodes receive the same endpoints of a service, except for the flag of those on the node itself: in the whole
 * cluster, in a zone (topology hints), or not at all (traffic policy Local, node hints).
 */
export function commonWithin({ service, slices }: ServiceState): "cluster" | "zone" | "node" {
  if (service === undefined || service.ignored) return "cluster";
  if (hasLocalPolicy(service)) return "node";
  let within: "cluster" | "zone" = "cluster";
  for (const { endpoints } of slices) {
    for (const { nodeHints, zoneHints } of endpoints) {
      if (nodeHints?.length) return "node";
      if (zoneHints?.length) within = "zone";
    }
  }
  return within;
}

/** Whether an endpoint is on a node; false if the node has no name. */
export function isOn(node: NodeContext, endpoint: SliceEndpoint): boolean {
  return node.name !== "" && endpoint.nodeName === node.name;
}

function hasLocalPolicy(service: Service): boolean {
  return FAMILIES.some((family) => service.ports.some((spec) => trafficPolicies(service, family, spec).use.local));
}

function usedEndpoints(
  { service, slices }: ServiceState,
  node: NodeContext,
  extended: boolean,
): ReadonlyMap<SliceEndpoint, Scopes> {
  const used = new Map<SliceEndpoint, Scopes>();
  if (service === undefined || service.ignored) return used;
  for (const family of FAMILIES) {
    const ofFamily = slices.filter((slice) => slice.family === family);
    if (ofFamily.length === 0) continue;
    for (const spec of service.ports) {
      const { internalLocal, externalLocal, use } = trafficPolicies(service, family, spec);
      const endpoints = endpointsOfSlices(ofFamily, spec.name, spec.protocol);
      const found = categorizeEndpoints(endpoints, use, node);
      const internal = new Set(internalLocal ? found.local : found.cluster);
      const external = new Set(externalLocal ? found.local : found.cluster);
      const also = new Set(extended ? [...found.cluster, ...spec.protocol === "udp" ? found.lingering : []] : []);
      const isUsed = ({ target }: ServiceEndpoint) => internal.has(target) || external.has(target) || also.has(target);
      const witnesses = extended
        ? [
          witness(endpoints, isUsable, isUsed),
          use.cluster ? witness(endpoints, hasNoNodeHint, isUsed) : undefined,
        ]
        : [];
      for (const one of endpoints) {
        const scopes = { internal: internal.has(one.target), external: external.has(one.target) };
        if (isUsed(one) || witnesses.includes(one)) add(used, one.endpoint, scopes);
      }
    }
  }
  return used;
}

function add(used: Map<SliceEndpoint, Scopes>, endpoint: SliceEndpoint, { internal, external }: Scopes): void {
  const before = used.get(endpoint);
  if (before === undefined) {
    used.set(endpoint, { internal, external });
    return;
  }
  before.internal ||= internal;
  before.external ||= external;
}

/** The first matching endpoint, as a witness; undefined if a used endpoint matches or none does. */
function witness(
  endpoints: readonly ServiceEndpoint[],
  matches: (endpoint: SliceEndpoint) => boolean,
  isUsed: (one: ServiceEndpoint) => boolean,
): ServiceEndpoint | undefined {
  if (endpoints.some((one) => matches(one.endpoint) && isUsed(one))) return undefined;
  return endpoints.find((one) => matches(one.endpoint));
}

/** Whether an endpoint prevents all node hints from being followed (see surveyEndpoints in core/planning). */
function hasNoNodeHint({ ready, nodeHints }: SliceEndpoint): boolean {
  return ready && !nodeHints?.length;
}

function isUsable({ ready, serving, terminating }: SliceEndpoint): boolean {
  return ready || serving && terminating;
}
