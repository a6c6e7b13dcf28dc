import { canonicalPrefix, FAMILIES, familyOf } from "../../platform/mod.ts";
import { balanceAnnotations, type Decoded, decodeService, type Service } from "../../core/objects/mod.ts";
import { readAffinityAnnotation } from "./affinity_annotation.ts";
import { ipSet, type IPSetMessage, listIps, PROTOCOLS, type ServiceMessage } from "./messages.ts";

/** Converts a service to KPNG's message; docs/wire.md lists what it cannot express. */
export function serviceMessage(service: Service): ServiceMessage {
  const { clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, details, affinitySeconds, balancing } = service;
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
    annotations: balancing ? { ...details?.annotations, ...balanceAnnotations(balancing) } : details?.annotations,
    ipFilters: sourceRanges.length === 0 || loadBalancer === undefined
      ? undefined
      : [{ targetIPs: loadBalancer, sourceRanges }],
    clientIP: affinitySeconds === 0 ? undefined : { timeoutSeconds: affinitySeconds },
    healthCheckNodePort: service.healthCheckNodePort,
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
  const decoded = decodeService({
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
  }, {});
  const { object } = decoded;
  const problems = [...decoded.problems, ...filters.problems];
  if (object?.kind !== "Service") return decoded;
  return { ...decoded, problems, object: withTargets(inFull ? withDetails(object, message) : object, message) };
}

/** What the IP filters of a service admit. */
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
