/** Converts Kubernetes objects to messages and back. */
import {
  type Decoded,
  decodeObject,
  type EndpointSlice,
  type Node,
  ownAnnotations,
  type Service,
  type ServiceCIDR,
  type SliceEndpoint,
} from "../../core/objects/mod.ts";
import { canonicalPrefix, FAMILIES, familyOf } from "../../platform/mod.ts";
import {
  type EndpointInfoMessage,
  type EndpointMessage,
  ipSet,
  type IPSetMessage,
  listIps,
  type NodeMessage,
  PROTOCOLS,
  type ServiceCIDRMessage,
  type ServiceMessage,
} from "./messages.ts";
import type { ServiceState } from "../store/mod.ts";

/**
 * Converts a service to KPNG's message; docs/wire.md lists what it cannot express. If extended, with the time of its creation,
 * so that every Sluice gives a contested frontend to the same service, and the hash of its selector.
 */
export function serviceMessage(service: Service, extended: boolean): ServiceMessage {
  const { clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, details, affinitySeconds } = service;
  const own = service.own && ownAnnotations(service.own);
  const loadBalancer = ipSet(loadBalancerIPs);
  return {
    namespace: service.namespace,
    name: service.name,
    type: service.type,
    ips: {
      // KPNG's iptables and userspace backends crash without these two, even if they are empty.
      clusterIPs: ipSet(clusterIPs) ?? {},
      externalIPs: ipSet(externalIPs) ?? {},
      loadBalancerIPs: loadBalancer,
      headless: clusterIPs.length === 0 && service.type !== "ExternalName",
    },
    mapIP: details?.mapIP,
    ports: service.ports.map(({ name, protocol, port, nodePort, target }) => ({
      name,
      protocol: PROTOCOLS.indexOf(protocol),
      port,
      nodePort,
      targetPort: target?.port,
      targetPortName: target?.name,
    })),
    externalTrafficToLocal: service.externalPolicyLocal,
    internalTrafficToLocal: service.internalPolicyLocal,
    labels: details?.labels,
    annotations: own ? { ...details?.annotations, ...own } : details?.annotations,
    ipFilters: sourceRanges.length === 0 || loadBalancer === undefined
      ? undefined
      : [{ targetIPs: loadBalancer, sourceRanges }],
    clientIP: affinitySeconds === 0 ? undefined : { timeoutSeconds: affinitySeconds },
    healthCheckNodePort: service.healthCheckNodePort,
    ...extended && { createdSeconds: service.createdSeconds, selector: service.selector },
  };
}

/**
 * Decodes the service in a message like a Service of the API, with the same validation; with `inFull`, including its details.
 * Session affinity may be in the annotation of `annotateAffinity`, since a KPNG that reads a state file has it only there.
 */
export function serviceOfMessage(received: ServiceMessage, inFull: boolean): Decoded {
  const message = readAffinityAnnotation(received);
  const { namespace, name, type, ips = {}, ports = [], clientIP } = message;
  const filters = readFilters(message);
  const served = (set: IPSetMessage | undefined) => listIps(set).filter((ip) => !filters.closed.has(ip));
  const clusterIPs = ips.headless ? ["None"] : served(ips.clusterIPs);
  const decoded = decodeObject("Service", {
    // In a state file, a service without a namespace is in the default one.
    metadata: { namespace: namespace || "default", name, annotations: message.annotations },
    spec: {
      type,
      clusterIPs,
      ipFamilies: clusterIPs.map((address) => FAMILIES.find((family) => family === familyOf(address))),
      externalIPs: served(ips.externalIPs),
      externalTrafficPolicy: message.externalTrafficToLocal ? "Local" : "Cluster",
      internalTrafficPolicy: message.internalTrafficToLocal ? "Local" : "Cluster",
      healthCheckNodePort: message.healthCheckNodePort || undefined,
      sessionAffinity: clientIP === undefined ? "None" : "ClientIP",
      sessionAffinityConfig: { clientIP },
      loadBalancerSourceRanges: filters.sourceRanges,
      ports: ports.map(({ name, protocol = 1, port, nodePort }) => ({
        name,
        protocol: PROTOCOLS[protocol]?.toUpperCase() ?? `number ${protocol}`,
        port,
        nodePort,
      })),
    },
    status: { loadBalancer: { ingress: served(ips.loadBalancerIPs).map((ip) => ({ ip })) } },
  });
  const { object } = decoded;
  const problems = [...decoded.problems, ...filters.problems];
  if (object?.kind !== "Service") return decoded;
  return {
    ...decoded,
    problems,
    object: withTargets(withExtensions(inFull ? withDetails(object, message) : object, message), message),
  };
}

interface Filters {
  /** The sources that all load balancer IPs admit; empty for all. */
  readonly sourceRanges: readonly string[];
  /** Addresses that are not served, because their filter cannot be applied. */
  readonly closed: ReadonlySet<string>;
  readonly problems: readonly string[];
}

/**
 * Reads the IP filters. KPNG filters by address, and its kube source names no target for the ranges of load balancer IPs: without
 * targets, a filter is for all of them. The ranges of one load balancer IP apply to all. A filter that cannot be applied closes its
 * addresses, because ignoring it would admit everyone.
 */
function readFilters({ ipFilters = [], ips = {} }: ServiceMessage): Filters {
  const loadBalancerIPs = listIps(ips.loadBalancerIPs);
  const sourceRanges = new Set<string>(), closed = new Set<string>(), problems: string[] = [];
  const close = (addresses: readonly string[], why: string) => {
    for (const address of addresses) closed.add(address);
    problems.push(`IP filter for ${addresses.join(", ")} ${why}; not serving these addresses`);
  };
  for (const filter of ipFilters) {
    const named = listIps(filter.targetIPs);
    const targets = named.length === 0 ? loadBalancerIPs : named;
    if (targets.length === 0) continue;
    const ranges = (filter.sourceRanges ?? []).filter((range) => canonicalPrefix(range.trim()) !== undefined);
    const others = targets.filter((ip) => !loadBalancerIPs.includes(ip));
    if (ranges.length === 0) close(targets, "has no usable source range");
    else {
      if (others.length > 0) close(others, "is not for load balancer IPs");
      if (others.length < targets.length) { for (const range of ranges) sourceRanges.add(range); }
    }
  }
  return { sourceRanges: [...sourceRanges], closed, problems };
}

function withDetails(service: Service, { labels = {}, annotations = {}, mapIP = false }: ServiceMessage): Service {
  return { ...service, details: { labels, annotations, mapIP } };
}

/** Adds the time of its creation and the hash of its selector, if the message has them. */
function withExtensions(service: Service, { createdSeconds = 0, selector }: ServiceMessage): Service {
  return {
    ...service,
    ...Number.isSafeInteger(createdSeconds) && createdSeconds > 0 && { createdSeconds },
    ...Number.isSafeInteger(selector) && { selector },
  };
}

/** Adds the target ports, by which the ports of endpoints are found. */
function withTargets(service: Service, { ports = [] }: ServiceMessage): Service {
  return {
    ...service,
    ports: service.ports.map((spec) => {
      const { targetPort = 0, targetPortName = "" } = ports.find(({ name = "", protocol = 1 }) =>
        name === spec.name && PROTOCOLS[protocol] === spec.protocol
      )!;
      return { ...spec, target: { port: targetPort, name: targetPortName } };
    }),
  };
}

/**
 * KPNG's state files cannot express session affinity (the field is a choice of messages, which its YAML reader does not
 * support) and refuse unknown fields. An annotation, which KPNG passes on, carries it instead.
 */
const ANNOTATION = "sluice/affinity-seconds";

/** Moves a service's affinity into an annotation. */
export function annotateAffinity({ clientIP, annotations, ...message }: ServiceMessage): ServiceMessage {
  if (clientIP === undefined) return { annotations, ...message };
  return { ...message, annotations: { ...annotations, [ANNOTATION]: String(clientIP.timeoutSeconds ?? 0) } };
}

/** Restores a service's affinity from its annotation; an affinity in the message itself takes precedence. */
function readAffinityAnnotation(message: ServiceMessage): ServiceMessage {
  if (message.clientIP !== undefined) return message;
  const { [ANNOTATION]: seconds, ...annotations } = message.annotations ?? {};
  if (seconds === undefined || !/^\d{1,6}$/.test(seconds)) return message;
  return { ...message, annotations, clientIP: { timeoutSeconds: Number(seconds) } };
}

/** An endpoint in KPNG's sense: all addresses of a pod from one source (an EndpointSlice, for example). */
export interface SourceEndpoint {
  readonly source: string;
  /** Its slice; of several, the first by name. */
  readonly slice: EndpointSlice;
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
      { source: slice.origin?.source ?? slice.name, slice, endpoint, addresses: [endpoint.address] }
    ))
  );
}

/**
 * The endpoints of a service in KPNG's sense: the addresses of one pod are one endpoint. With `bySource`, different sources are
 * different endpoints. Sorted by pod name; endpoints without a pod come last.
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
      // KPNG's backends look up named ports only here, even ports equal to the target port.
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

const ZONE = "topology.kubernetes.io/zone";

/** Converts a node to a message; if extended, with its addresses, pod CIDRs and whether it is about to be deleted. */
export function nodeMessage(node: Node, extended: boolean): NodeMessage {
  const { name, zone, details } = node;
  // A zone is sent as a label, where KPNG programs look for it, unless the labels have another one.
  const labels = details?.labels ?? (zone === "" ? {} : { [ZONE]: zone });
  const isInLabels = labels[ZONE] === zone || zone === "";
  const message: NodeMessage = {
    name,
    labels,
    annotations: details?.annotations,
    topology: isInLabels ? undefined : { node: name, zone },
  };
  if (!extended) return message;
  return { ...message, addresses: node.addresses, podCIDRs: node.podCIDRs, leaving: node.leaving };
}

/** Decodes the node in a message like a Node of the API; with `inFull`, including labels and annotations. */
export function nodeOfMessage(message: NodeMessage, inFull: boolean): Decoded {
  const { name, labels = {}, annotations = {}, topology, addresses = [], podCIDRs } = message;
  const zone = topology?.zone || labels[ZONE] || "";
  const decoded = decodeObject("Node", {
    metadata: { name, labels: { [ZONE]: zone }, deletionTimestamp: message.leaving ? "set" : undefined },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  });
  if (!inFull || decoded.object === undefined) return decoded;
  return { ...decoded, object: { ...decoded.object as Node, details: { labels, annotations } } };
}

/** Converts a ServiceCIDR to a message. */
export function serviceCIDRMessage({ name, cidrs }: ServiceCIDR): ServiceCIDRMessage {
  return { name, cidrs };
}

/** Decodes the ServiceCIDR in a message like one of the API. */
export function serviceCIDROfMessage({ name, cidrs }: ServiceCIDRMessage): Decoded {
  return decodeObject("ServiceCIDR", { metadata: { name }, spec: { cidrs } });
}
