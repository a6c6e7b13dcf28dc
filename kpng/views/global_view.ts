import type { EndpointSlice, ServiceCIDR } from "../../core/objects/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { contentHash, type View, type WireItem, wireItem } from "./operations.ts";
import {
  eachEndpoint,
  ENDPOINT_INFO,
  endpointInfoMessage,
  endpointMessage,
  extendedEndpointMessage,
  NODE_INFO,
  nodeMessage,
  podEndpoints,
  SERVICE_CIDR,
  SERVICE_INFO,
  serviceCIDRMessage,
  serviceMessage,
  SETS,
  type SourceEndpoint,
} from "../messages/mod.ts";
import type { Message } from "../codec/mod.ts";

/** A view of the whole cluster: every service, endpoint and node (package `globalv1`). */
export function createGlobalView({ extended, nodeName }: {
  /** Whether it is a Sluice. */
  readonly extended: boolean;
  /** The only node to include; undefined for all. */
  readonly nodeName: string | undefined;
}): View {
  const set = SETS.GlobalEndpointInfos;

  const extendedItem = (state: ServiceState, one: SourceEndpoint): WireItem => {
    const { namespace, name } = state;
    const info = (withTime: boolean) => endpointInfoMessage(state, one, extendedEndpointMessage(one, withTime));
    const { hash, content } = hashed(ENDPOINT_INFO, info(false));
    const path = `${namespace}|${name}|${one.source}|${hash.text}`;
    if (one.slice.triggerTimeMs === 0) return wireItem(set, path, content);
    return wireItem(set, path, content, ENDPOINT_INFO.encode({ hash: hash.value, ...info(true) }));
  };

  const plainItems = (state: ServiceState, one: SourceEndpoint): WireItem[] => {
    const { namespace, name, service } = state;
    const { hash, content } = hashed(ENDPOINT_INFO, endpointInfoMessage(state, one, endpointMessage(one, service)));
    // KPNG's programs look up endpoints by service and by source, and expect both paths.
    return [`${namespace}|${name}|${one.source}|${hash.text}`, `${namespace}||${one.source}|${hash.text}`]
      .map((path) => wireItem(set, path, content));
  };

  /** Encodes a message; only KPNG's programs use the hash of a service or node. */
  const encoded = <T extends { readonly hash?: bigint }>(message: Message<T>, value: T) =>
    extended ? message.encode(value) : hashed(message, value).content;

  return {
    service: ({ namespace, name, service }) =>
      service === undefined || service.ignored ? undefined : wireItem(
        SETS.GlobalServiceInfos,
        `${namespace}|${name}||`,
        encoded(SERVICE_INFO, { service: serviceMessage(service, extended) }),
      ),
    endpoints(state, other) {
      if (!extended) return podEndpoints(state.slices, true).flatMap((one) => plainItems(state, one));
      return eachEndpoint(changedSlices(state, other)).map((one) => extendedItem(state, one));
    },
    scoped(object) {
      if (object.kind === "ServiceCIDR") return extended ? serviceCIDRItem(object) : undefined;
      if (nodeName !== undefined && object.name !== nodeName) return undefined;
      const content = encoded(NODE_INFO, { node: nodeMessage(object, extended) });
      return wireItem(SETS.GlobalNodeInfos, `|${object.name}||`, content);
    },
  };
}

/** Sluice's own item for a range of cluster IPs. */
export function serviceCIDRItem(object: ServiceCIDR): WireItem {
  return wireItem(SETS.ServiceCIDRs, object.name, SERVICE_CIDR.encode(serviceCIDRMessage(object)));
}

function changedSlices(state: ServiceState, other: ServiceState | undefined): readonly EndpointSlice[] {
  return other === undefined ? state.slices : state.slices.filter((slice) => !other.slices.includes(slice));
}

/** Encodes a message of `globalv1` with the hash of its other fields. */
function hashed<T extends { readonly hash?: bigint }>(message: Message<T>, value: T) {
  const hash = contentHash(message.encode(value));
  return { hash, content: message.encode({ ...value, hash: hash.value }) };
}
