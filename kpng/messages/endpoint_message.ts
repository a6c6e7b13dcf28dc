import { familyOf } from "../../platform/mod.ts";
import type { EndpointSlice, Service, SliceEndpoint } from "../../core/objects/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { ipSet } from "./messages.ts";
import { type EndpointInfoMessage, type EndpointMessage, PROTOCOLS } from "./messages.ts";

/** An endpoint in KPNG's sense: all addresses of a pod from one source (an EndpointSlice, for example). */
export interface SourceEndpoint {
  readonly source: string;
  /** Its slice; of several, the first by name. */
  readonly slice: EndpointSlice;
  /** Its endpoint there. */
  readonly endpoint: SliceEndpoint;
  /** At most one of each family. */
  readonly addresses: readonly string[];
}

/** The endpoints of a service, one per address, for another Sluice. `chosen` filters them. */
export function eachEndpoint(
  slices: readonly EndpointSlice[],
  chosen: (endpoint: SliceEndpoint) => boolean = () => true,
): SourceEndpoint[] {
  return slices.flatMap((slice) =>
    slice.endpoints.filter(chosen).map((endpoint) => (
      { source: sourceOf(slice), slice, endpoint, addresses: [endpoint.address] }
    ))
  );
}

/**
 * The endpoints of a service in KPNG's sense: the addresses of one pod are one endpoint. With `bySource`, different sources are
 * different endpoints. Sorted by pod name, those without a pod last.
 */
export function podEndpoints(
  slices: readonly EndpointSlice[],
  bySource: boolean,
  chosen?: (endpoint: SliceEndpoint) => boolean,
): SourceEndpoint[] {
  const found = new Map<string, SourceEndpoint>();
  for (const one of eachEndpoint(slices, chosen)) {
    const { podName = "" } = one.endpoint.details ?? {};
    const key = `${bySource ? one.source : ""}|${podName}|${podName === "" ? one.endpoint.address : ""}`;
    const before = found.get(key);
    if (before === undefined) found.set(key, one);
    else if (!before.addresses.some((address) => familyOf(address) === one.slice.family)) {
      found.set(key, { ...before, addresses: [...before.addresses, ...one.addresses] });
    }
  }
  const podOf = ({ endpoint }: SourceEndpoint) => endpoint.details?.podName || "\uffff";
  return [...found.values()].sort((a, b) => podOf(a) < podOf(b) ? -1 : podOf(a) > podOf(b) ? 1 : 0);
}

/** KPNG's SourceName. */
function sourceOf(slice: EndpointSlice): string {
  return slice.origin?.source ?? slice.name;
}

/** Converts an endpoint to KPNG's message, without the fields that depend on the node. */
export function endpointMessage(
  { slice, endpoint, addresses }: SourceEndpoint,
  service: Service | undefined,
): EndpointMessage {
  return {
    hostname: endpoint.details?.hostname,
    ips: ipSet(addresses),
    portOverrides: slice.ports.flatMap(({ name, protocol, port }) => {
      const target = service?.ports.find((spec) => spec.name === name && spec.protocol === protocol)?.target;
      // KPNG's backends look up named ports only here, even those that equal the target port.
      const isSent = name !== "" || target?.port !== port;
      return isSent ? [{ name: name || target?.name, port }] : [];
    }),
  };
}

/** Converts an endpoint to a message with all of Sluice's fields; with its trigger time only if `withTime`. */
export function extendedEndpointMessage(
  { slice, endpoint, addresses }: SourceEndpoint,
  withTime: boolean,
): EndpointMessage {
  const pod = endpoint.pod?.namespace === slice.namespace ? endpoint.pod : undefined;
  return {
    hostname: endpoint.details?.hostname,
    ips: ipSet(addresses),
    portOverrides: slice.ports.map(({ name, protocol, port }) => (
      { name, port, protocol: PROTOCOLS.indexOf(protocol) }
    )),
    details: {
      notReady: !endpoint.ready,
      notServing: !endpoint.serving,
      terminating: endpoint.terminating,
      node: endpoint.nodeName,
      zone: endpoint.zone,
      zoneHints: endpoint.zoneHints,
      nodeHints: endpoint.nodeHints,
      slice: slice.name,
      triggerTimeMs: withTime ? slice.triggerTimeMs : undefined,
      podName: pod?.name,
      podUid: pod?.uid,
    },
  };
}

/** Wraps an endpoint for the global state. */
export function endpointInfoMessage(
  { namespace, name }: ServiceState,
  { source, endpoint }: SourceEndpoint,
  message: EndpointMessage,
): EndpointInfoMessage {
  const { nodeName: node, zone, zoneHints } = endpoint;
  return {
    namespace,
    sourceName: source,
    serviceName: name,
    endpoint: message,
    conditions: { ready: endpoint.ready },
    podName: endpoint.details?.podName,
    topology: node === "" && zone === "" ? undefined : { node, zone },
    hints: zoneHints === undefined ? undefined : { zones: zoneHints },
  };
}
