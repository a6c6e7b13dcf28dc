import type { SliceEndpoint } from "../../core/objects/mod.ts";
import { categorizeEndpoints, type NodeContext, trafficPolicies } from "../../core/planning/mod.ts";
import { FAMILIES } from "../../platform/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { endpointsOfSlices, type ServiceEndpoint } from "../../core/tracking/mod.ts";
import { contentHash } from "./content_hash.ts";
import {
  eachEndpoint,
  ENDPOINT,
  type EndpointMessage,
  endpointMessage,
  extendedEndpointMessage,
  NODE_INFO,
  nodeMessage,
  podEndpoints,
  SERVICE,
  serviceMessage,
  SETS,
} from "../messages/mod.ts";
import { serviceCIDRItem } from "./global_view.ts";
import type { View, WireItem } from "./operations.ts";

/** The request of a local watcher. */
export interface LocalViewOptions {
  /** Whether it is a Sluice. */
  readonly extended: boolean;
  /** The watcher's node and zone. */
  readonly node: NodeContext;
}

/** The traffic of this node that uses an endpoint. Both may be false for endpoints that only a Sluice receives. */
interface Scopes {
  internal: boolean;
  external: boolean;
}

/**
 * A view of what one node may use (package `localv1`), as decided by planning. So that its own planning gets the same result, a
 * Sluice also receives endpoints whose UDP flows may stay and up to two witnesses per port: one usable endpoint if none is used,
 * because packets are then dropped instead of rejected; and one ready endpoint without a node hint, which keeps the node hints of
 * the others from being followed.
 */
export function createLocalView({ extended, node }: LocalViewOptions): View {
  const item = (path: string, encode: (withTime: boolean) => EndpointMessage, timed: boolean): WireItem => {
    const bytes = ENDPOINT.encode(encode(false));
    const hash = contentHash(bytes).text;
    return {
      set: SETS.endpoints,
      path: path.endsWith("/") ? path + hash : path,
      hash,
      bytes: timed ? ENDPOINT.encode(encode(true)) : bytes,
    };
  };

  return {
    service({ namespace, name, service }) {
      if (service === undefined || service.ignored) return undefined;
      const bytes = SERVICE.encode(serviceMessage(service));
      return { set: SETS.services, path: `${namespace}/${name}`, hash: contentHash(bytes).text, bytes };
    },
    endpoints(state) {
      const { namespace, name, service, slices } = state;
      const used = usedEndpoints(state, node, extended);
      const chosen = (endpoint: SliceEndpoint) => used.has(endpoint);
      const found = extended ? eachEndpoint(slices, chosen) : podEndpoints(slices, false, chosen);
      return found.map((one) => {
        const scopes = used.get(one.endpoint);
        const local = isOn(node, one.endpoint);
        const podName = extended ? undefined : one.endpoint.details?.podName;
        return item(
          `${namespace}/${name}/${podName ?? ""}`,
          (withTime) => (
            { ...extended ? extendedEndpointMessage(one, withTime) : endpointMessage(one, service), local, scopes }
          ),
          extended && one.slice.triggerTimeMs !== 0,
        );
      });
    },
    scoped(object) {
      if (!extended) return undefined;
      if (object.kind === "ServiceCIDR") return serviceCIDRItem(object);
      if (object.name !== node.name) return undefined;
      const bytes = NODE_INFO.encode({ node: nodeMessage(object, true) });
      return { set: SETS.globalNodes, path: `|${object.name}||`, hash: contentHash(bytes).text, bytes };
    },
  };
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

function isOn(node: NodeContext, endpoint: SliceEndpoint): boolean {
  return node.name !== "" && endpoint.nodeName === node.name;
}
