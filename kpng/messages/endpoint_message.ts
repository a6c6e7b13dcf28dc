import { familyOf } from "../../platform/mod.ts";
import type { EndpointSlice, Service, SliceEndpoint } from "../../core/objects/mod.ts";
import type { ServiceState } from "../store/mod.ts";
import { ipSet } from "./ip_set.ts";
import { type EndpointInfoMessage, type EndpointMessage, PROTOCOLS } from "./messages.ts";

/** An endpoint of a service as KPNG sees it: all addresses of a pod, from a source (an EndpointSlice, say). */
export interface SourceEndpoint {
  readonly source: string;
  /** The slice that says most about it: of several, the first by name. */
  readonly slice: EndpointSlice;
  /** Its endpoint there. */
  readonly endpoint: SliceEndpoint;
  /** One of each family at the most. */
  readonly addresses: readonly string[];
}

/**
 * The endpoints of a service, each address by itself: what goes from Sluice to Sluice, which both know EndpointSlices.
 * `chosen` picks some of them.
 */
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
 * The endpoints of a service as KPNG has them: the addresses of one pod are one endpoint. Those of different sources are
 * kept apart where `bySource` says so. In the order of pods' names, those without a pod last.
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

/** What KPNG calls SourceName. */
function sourceOf(slice: EndpointSlice): string {
  return slice.origin?.source ?? slice.name;
}

/** The endpoint as KPNG says it, without what only a node can say of it. */
export function endpointMessage(
  { slice, endpoint, addresses }: SourceEndpoint,
  service: Service | undefined,
): EndpointMessage {
  return {
    hostname: endpoint.details?.hostname,
    ips: ipSet(addresses),
    portOverrides: slice.ports.flatMap(({ name, protocol, port }) => {
      const target = service?.ports.find((spec) => spec.name === name && spec.protocol === protocol)?.target;
      // In KPNG's own state, a port that is as the service has it is not repeated; what came from EndpointSlices is
      // always told, because KPNG's backends look for named ports there only.
      const isTold = target?.port !== port || (slice.origin === undefined && name !== "");
      return isTold ? [{ name: name || target?.name, port }] : [];
    }),
  };
}

/** The endpoint with all that Sluice knows of it. When its change was triggered is only told if `withTime` says so. */
export function extendedEndpointMessage(
  { slice, endpoint, addresses }: SourceEndpoint,
  withTime: boolean,
): EndpointMessage {
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
    },
  };
}

/** What surrounds an endpoint in the global state. */
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
