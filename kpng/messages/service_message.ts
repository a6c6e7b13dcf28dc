import { FAMILIES, familyOf } from "../../platform/mod.ts";
import { type Decoded, decodeService, type Service } from "../../core/objects/mod.ts";
import { ipSet, listIps } from "./messages.ts";
import { PROTOCOLS, type ServiceMessage } from "./messages.ts";

/** Converts a service to KPNG's message; docs/wire.md lists what it cannot express. */
export function serviceMessage(service: Service): ServiceMessage {
  const { clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, details, affinitySeconds } = service;
  const loadBalancer = ipSet(loadBalancerIPs);
  return {
    namespace: service.namespace,
    name: service.name,
    type: service.type,
    ips: {
      clusterIPs: ipSet(clusterIPs),
      externalIPs: ipSet(externalIPs),
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
    annotations: details?.annotations,
    ipFilters: sourceRanges.length === 0 || loadBalancer === undefined
      ? undefined
      : [{ targetIPs: loadBalancer, sourceRanges }],
    clientIP: affinitySeconds === 0 ? undefined : { timeoutSeconds: affinitySeconds },
    healthCheckNodePort: service.healthCheckNodePort,
  };
}

/**
 * Decodes the service in a message like a Service of the API, with the same validation; with `inFull`, including its details.
 */
export function serviceOfMessage(message: ServiceMessage, inFull: boolean): Decoded {
  const { namespace, name, type, ips = {}, ports = [], clientIP } = message;
  const clusterIPs = ips.headless ? ["None"] : listIps(ips.clusterIPs);
  const loadBalancerIPs = listIps(ips.loadBalancerIPs);
  const decoded = decodeService({
    // In a state file, a service without a namespace is in the default one.
    metadata: { namespace: namespace || "default", name },
    spec: {
      type,
      clusterIPs,
      ipFamilies: clusterIPs.map((address) => FAMILIES.find((family) => family === familyOf(address))),
      externalIPs: listIps(ips.externalIPs),
      externalTrafficPolicy: message.externalTrafficToLocal ? "Local" : "Cluster",
      internalTrafficPolicy: message.internalTrafficToLocal ? "Local" : "Cluster",
      healthCheckNodePort: message.healthCheckNodePort || undefined,
      sessionAffinity: clientIP === undefined ? "None" : "ClientIP",
      sessionAffinityConfig: { clientIP },
      loadBalancerSourceRanges: sourceRangesOf(message, loadBalancerIPs),
      ports: ports.map(({ name, protocol = 1, port, nodePort }) => ({
        name,
        protocol: PROTOCOLS[protocol]?.toUpperCase() ?? `number ${protocol}`,
        port,
        nodePort,
      })),
    },
    status: { loadBalancer: { ingress: loadBalancerIPs.map((ip) => ({ ip })) } },
  }, false);
  const { object } = decoded;
  if (object?.kind !== "Service") return decoded;
  return { ...decoded, object: withTargets(inFull ? withDetails(object, message) : object, message) };
}

/** KPNG filters by address; a source range of one load balancer IP is applied to all of them. */
function sourceRangesOf({ ipFilters = [] }: ServiceMessage, loadBalancerIPs: readonly string[]): readonly string[] {
  const ranges = ipFilters.filter(({ targetIPs }) => listIps(targetIPs).some((ip) => loadBalancerIPs.includes(ip)))
    .flatMap(({ sourceRanges = [] }) => sourceRanges);
  return [...new Set(ranges)];
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
