import { FAMILIES, familyOf } from "../../platform/mod.ts";
import { type Decoded, decodeService, type Service } from "../../core/objects/mod.ts";
import { ipSet, listIps } from "./ip_set.ts";
import { PROTOCOLS, type ServiceMessage } from "./messages.ts";

/** A service as KPNG says it; see docs/wire.md for what of it cannot be said. */
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
 * The service that a message describes, with the meaning, and the care, that a Service of the API is read with. In full,
 * it keeps what load balancing does not need.
 */
export function serviceOfMessage(message: ServiceMessage, inFull: boolean): Decoded {
  const { namespace, name, type, ips = {}, ports = [], clientIP } = message;
  const clusterIPs = ips.headless ? ["None"] : listIps(ips.clusterIPs);
  const loadBalancerIPs = listIps(ips.loadBalancerIPs);
  const decoded = decodeService({
    // The API has no service without a namespace; in a state file that means the default one.
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

/** KPNG filters by address; whoever may use one of the load balancer's addresses is let in at all of them. */
function sourceRangesOf({ ipFilters = [] }: ServiceMessage, loadBalancerIPs: readonly string[]): readonly string[] {
  const ranges = ipFilters.filter(({ targetIPs }) => listIps(targetIPs).some((ip) => loadBalancerIPs.includes(ip)))
    .flatMap(({ sourceRanges = [] }) => sourceRanges);
  return [...new Set(ranges)];
}

function withDetails(service: Service, { labels = {}, annotations = {}, mapIP = false }: ServiceMessage): Service {
  return { ...service, details: { labels, annotations, mapIP } };
}

/** What the ports of the service's endpoints are found by. */
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
