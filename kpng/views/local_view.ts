import type { Service } from "../../core/objects/mod.ts";
import type { NodeContext } from "../../core/planning/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { contentHash } from "./content_hash.ts";
import {
  ENDPOINT,
  endpointMessage,
  extendedEndpointMessage,
  NODE_INFO,
  nodeMessage,
  SERVICE,
  serviceMessage,
  SETS,
} from "../messages/mod.ts";
import { serviceCIDRItem } from "./global_view.ts";
import { commonWithin, isOn, type LocalEndpoint, localEndpoints } from "./local_endpoints.ts";
import { type View, type WireItem, wireItem } from "./operations.ts";

/** The request of a local watcher. */
export interface LocalViewOptions {
  /** Whether it is a Sluice. */
  readonly extended: boolean;
  /** The watcher's node and zone. */
  readonly node: NodeContext;
}

/** A view of what one node may use (package `localv1`), as decided by planning. */
export function createLocalView({ extended, node }: LocalViewOptions): View {
  return {
    service: serviceItem,
    endpoints: (state) =>
      localEndpoints(state, node, extended).map((found) => (
        endpointItem(state, found, isOn(node, found.one.endpoint), extended)
      )),
    scoped(object) {
      if (!extended) return undefined;
      if (object.kind === "ServiceCIDR") return serviceCIDRItem(object);
      if (object.name !== node.name) return undefined;
      return wireItem(SETS.globalNodes, `|${object.name}||`, NODE_INFO.encode({ node: nodeMessage(object, true) }));
    },
  };
}

/** The views of all nodes; what nodes have in common is encoded once. */
export interface LocalViews {
  of(node: NodeContext): View;
  /**
   * The nodes whose endpoints of a service differ from those of a node without a name in that zone; undefined if every node's
   * may.
   */
  differing(state: ServiceState, zone: string): ReadonlySet<string> | undefined;
}

/** The endpoints that nodes have in common. */
interface Common {
  readonly endpoints: readonly LocalEndpoint[];
  readonly items: readonly WireItem[];
  /** The nodes of the endpoints. */
  readonly nodes: ReadonlySet<string>;
}

/** Views that keep what they encode until they are dropped. */
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
          const item = serviceItem(state);
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

function serviceItem({ namespace, name, service }: ServiceState): WireItem | undefined {
  if (service === undefined || service.ignored) return undefined;
  return wireItem(SETS.services, `${namespace}/${name}`, SERVICE.encode(serviceMessage(service)));
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
  if (!extended || one.slice.triggerTimeMs === 0) return wireItem(SETS.endpoints, path, content);
  const timed = ENDPOINT.encode({ ...extendedEndpointMessage(one, true), local, scopes });
  return wireItem(SETS.endpoints, path, content, timed);
}
