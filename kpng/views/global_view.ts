import type { EndpointSlice, ServiceCIDR } from "../../core/objects/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { contentHash } from "./content_hash.ts";
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
import type { View, WireItem } from "./operations.ts";

/** The request of a global watcher. */
export interface GlobalViewOptions {
  /** Whether it is a Sluice. */
  readonly extended: boolean;
  /** The only node to include; undefined for all. */
  readonly nodeName: string | undefined;
}

/** A view of the whole cluster: every service, endpoint and node (package `globalv1`). */
export function createGlobalView({ extended, nodeName }: GlobalViewOptions): View {
  const set = SETS.globalEndpoints;

  const extendedItem = (state: ServiceState, one: SourceEndpoint): WireItem => {
    const { namespace, name } = state;
    const info = (withTime: boolean) => endpointInfoMessage(state, one, extendedEndpointMessage(one, withTime));
    const { hash, bytes } = hashed(ENDPOINT_INFO, info(false));
    const path = `${namespace}|${name}|${one.source}|${hash}`;
    if (one.slice.triggerTimeMs === 0) return { set, path, hash, bytes };
    return { set, path, hash, bytes: ENDPOINT_INFO.encode({ hash: BigInt(`0x${hash}`), ...info(true) }) };
  };

  const plainItems = (state: ServiceState, one: SourceEndpoint): WireItem[] => {
    const { namespace, name, service } = state;
    const { hash, bytes } = hashed(ENDPOINT_INFO, endpointInfoMessage(state, one, endpointMessage(one, service)));
    // KPNG's programs look up endpoints by service and by source, and expect both paths.
    return [`${namespace}|${name}|${one.source}|${hash}`, `${namespace}||${one.source}|${hash}`]
      .map((path) => ({ set, path, hash, bytes }));
  };

  return {
    service: ({ namespace, name, service }) =>
      service === undefined || service.ignored ? undefined : {
        set: SETS.globalServices,
        path: `${namespace}|${name}||`,
        ...hashed(SERVICE_INFO, { service: serviceMessage(service) }),
      },
    endpoints(state, other) {
      if (!extended) return podEndpoints(state.slices, true).flatMap((one) => plainItems(state, one));
      return eachEndpoint(changedSlices(state, other)).map((one) => extendedItem(state, one));
    },
    scoped(object) {
      if (object.kind === "ServiceCIDR") return extended ? serviceCIDRItem(object) : undefined;
      if (nodeName !== undefined && object.name !== nodeName) return undefined;
      const content = hashed(NODE_INFO, { node: nodeMessage(object, extended) });
      return { set: SETS.globalNodes, path: `|${object.name}||`, ...content };
    },
  };
}

/** Sluice's own item for a range of cluster IPs. */
export function serviceCIDRItem(object: ServiceCIDR): WireItem {
  const bytes = SERVICE_CIDR.encode(serviceCIDRMessage(object));
  return { set: SETS.serviceCIDRs, path: object.name, hash: contentHash(bytes).text, bytes };
}

function changedSlices(state: ServiceState, other: ServiceState | undefined): readonly EndpointSlice[] {
  return other === undefined ? state.slices : state.slices.filter((slice) => !other.slices.includes(slice));
}

/** Encodes a message of `globalv1` with its own hash in the field for it. */
function hashed<T extends { readonly hash?: bigint }>(message: Message<T>, value: T): Pick<WireItem, "hash" | "bytes"> {
  const { value: hash, text } = contentHash(message.encode(value));
  return { hash: text, bytes: message.encode({ ...value, hash }) };
}
