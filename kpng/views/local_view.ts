import type { Service, SliceEndpoint } from "../../core/objects/mod.ts";
import {
  blocksNodeHints,
  categorizeEndpoints,
  isOn,
  isUsable,
  type NodeContext,
  trafficPolicies,
} from "../../core/planning/mod.ts";
import { endpointsOfSlices, type ServiceEndpoint } from "../../core/tracking/mod.ts";
import { FAMILIES, type Family } from "../../platform/mod.ts";
import {
  eachEndpoint,
  ENDPOINT,
  endpointMessage,
  extendedEndpointMessage,
  NODE_INFO,
  nodeMessage,
  podEndpoints,
  SERVICE,
  serviceMessage,
  SETS,
  type SourceEndpoint,
} from "../messages/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { serviceCIDRItem } from "./global_view.ts";
import { contentHash, type View, type WireItem, wireItem } from "./operations.ts";

/** A view of what one node may use (package `localv1`), as decided by planning. */
export function createLocalView({ extended, node }: {
  /** Whether it is a Sluice. */
  readonly extended: boolean;
  readonly node: NodeContext;
}): View {
  return {
    service: (state) => serviceItem(state, extended),
    endpoints: (state) =>
      localEndpoints(state, node, extended).map((found) => (
        endpointItem(state, found, isOn(node, found.one.endpoint), extended)
      )),
    scoped(object) {
      if (!extended) return undefined;
      if (object.kind === "ServiceCIDR") return serviceCIDRItem(object);
      if (object.name !== node.name) return undefined;
      return wireItem(SETS.GlobalNodeInfos, `|${object.name}||`, NODE_INFO.encode({ node: nodeMessage(object, true) }));
    },
  };
}

/** The views of all nodes; what nodes have in common is encoded once. */
export interface LocalViews {
  of(node: NodeContext): View;
  /** The nodes that receive other endpoints of a service than the rest of the zone; undefined if every node may. */
  differing(state: ServiceState, zone: string): ReadonlySet<string> | undefined;
}

interface Common {
  readonly endpoints: readonly LocalEndpoint[];
  readonly items: readonly WireItem[];
  readonly nodes: ReadonlySet<string>;
}

/** Views that cache what they encode. */
export function createLocalViews(extended: boolean): LocalViews {
  const services = new WeakMap<Service, WireItem>();
  // By zone; the empty one for the whole cluster. Undefined if nodes have nothing in common.
  const known = new WeakMap<ServiceState, Map<string, Common> | undefined>();

  const commonOf = (state: ServiceState, zone: string): Common | undefined => {
    const within = commonWithin(state);
    if (within === "node") return undefined;
    const place = within === "zone" ? zone : "";
    let byPlace = known.get(state);
    if (byPlace === undefined) known.set(state, byPlace = new Map());
    let common = byPlace.get(place);
    if (common === undefined) byPlace.set(place, common = encodeCommon(state, { name: "", zone: place }, extended));
    return common;
  };

  return {
    of(node) {
      const own = createLocalView({ extended, node });
      return {
        ...own,
        service(state) {
          const { service } = state;
          const before = service === undefined ? undefined : services.get(service);
          if (service === undefined || before !== undefined) return before;
          const item = serviceItem(state, extended);
          if (item !== undefined) services.set(service, item);
          return item;
        },
        endpoints(state) {
          const common = commonOf(state, node.zone);
          if (common === undefined) return own.endpoints(state, undefined);
          if (!common.nodes.has(node.name)) return common.items;
          return common.endpoints.map((found, i) =>
            isOn(node, found.one.endpoint) ? endpointItem(state, found, true, extended) : common.items[i]!
          );
        },
      };
    },
    differing: (state, zone) => commonOf(state, zone)?.nodes,
  };
}

function encodeCommon(state: ServiceState, node: NodeContext, extended: boolean): Common {
  const endpoints = localEndpoints(state, node, extended);
  const nodes = new Set(endpoints.map(({ one }) => one.endpoint.nodeName));
  nodes.delete("");
  return { endpoints, items: endpoints.map((found) => endpointItem(state, found, false, extended)), nodes };
}

function serviceItem({ namespace, name, service }: ServiceState, extended: boolean): WireItem | undefined {
  if (service === undefined || service.ignored) return undefined;
  return wireItem(SETS.ServicesSet, `${namespace}/${name}`, SERVICE.encode(serviceMessage(service, extended)));
}

function endpointItem(
  { namespace, name, service }: ServiceState,
  { one, scopes }: LocalEndpoint,
  local: boolean,
  extended: boolean,
): WireItem {
  const message = extended ? extendedEndpointMessage(one, false) : endpointMessage(one, service);
  const content = ENDPOINT.encode({ ...message, local, scopes });
  const podName = extended ? "" : one.endpoint.details?.podName ?? "";
  const path = `${namespace}/${name}/${podName || contentHash(content).text}`;
  if (!extended || one.slice.triggerTimeMs === 0) return wireItem(SETS.EndpointsSet, path, content);
  const timed = ENDPOINT.encode({ ...extendedEndpointMessage(one, true), local, scopes });
  return wireItem(SETS.EndpointsSet, path, content, timed);
}

/** The traffic of this node that uses an endpoint. Both may be false for endpoints that only a Sluice receives. */
interface Scopes {
  readonly internal: boolean;
  readonly external: boolean;
}

interface LocalEndpoint {
  readonly one: SourceEndpoint;
  readonly scopes: Scopes | undefined;
}

/**
 * The endpoints that a node receives. So that its own planning gets the same result, a Sluice also receives endpoints whose UDP
 * flows may stay, and up to two witnesses per port. If no endpoint is used, the first is a usable endpoint: packets are then
 * dropped instead of rejected. The second is a ready endpoint without a node hint: because of it, the node hints of the others
 * are ignored.
 */
function localEndpoints(state: ServiceState, node: NodeContext, extended: boolean): LocalEndpoint[] {
  const used = usedEndpoints(state, node, extended);
  const chosen = (endpoint: SliceEndpoint) => used.has(endpoint);
  const found = extended ? eachEndpoint(state.slices, chosen) : podEndpoints(state.slices, false, chosen);
  return found.map((one) => ({ one, scopes: used.get(one.endpoint) }));
}

/**
 * The scope within which all nodes receive the same endpoints of a service, except for the flag of a node's own endpoints: the
 * whole cluster, a zone (topology hints), or one node (traffic policy Local, node hints).
 */
function commonWithin({ service, slices }: ServiceState): "cluster" | "zone" | "node" {
  if (service === undefined || service.ignored) return "cluster";
  const isLocal = (family: Family) => service.ports.some((spec) => trafficPolicies(service, family, spec).use.local);
  if (FAMILIES.some(isLocal)) return "node";
  let within: "cluster" | "zone" = "cluster";
  for (const { endpoints } of slices) {
    for (const { nodeHints, zoneHints } of endpoints) {
      if (nodeHints?.length) return "node";
      if (zoneHints?.length) within = "zone";
    }
  }
  return within;
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
        ? [witness(endpoints, isUsable, isUsed), use.cluster ? witness(endpoints, blocksNodeHints, isUsed) : undefined]
        : [];
      for (const one of endpoints) {
        if (!isUsed(one) && !witnesses.includes(one)) continue;
        const before = used.get(one.endpoint);
        used.set(one.endpoint, {
          internal: internal.has(one.target) || before?.internal === true,
          external: external.has(one.target) || before?.external === true,
        });
      }
    }
  }
  return used;
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
