import { type Family, familyOf, joinFlat, prefixContains } from "../../platform/mod.ts";
import type { LoadBalancerSources, Protocol, ServicePort, ServicePortName, Verdict } from "../model/mod.ts";
import type { Service, ServicePortSpec } from "../objects/mod.ts";
import { type ServiceEndpoint, serviceKey } from "../tracking/mod.ts";
import { categorizeEndpoints, type EndpointCategories, type EndpointUse, type NodeContext } from "./endpoints.ts";

/** What the ports of a service are planned from. */
export interface ServicePlanInput {
  readonly service: Service;
  readonly family: Family;
  readonly node: NodeContext;
  /** This node's primary address of the family. */
  readonly nodeIP: string;
  /** The endpoints of one of its ports, sorted, each once. */
  readonly endpointsOf: (portName: string, protocol: Protocol) => readonly ServiceEndpoint[];
}

/**
 * The service ports of a service in one family: none where it has no cluster IP of that family. Of ports with the same
 * name and protocol, which the API refuses, the last one counts, as in kube-proxy.
 */
export function planService(input: ServicePlanInput): ServicePort[] {
  const { service, family, nodeIP } = input;
  const clusterIP = service.clusterIPs.find((address) => familyOf(address) === family);
  if (clusterIP === undefined) return [];
  const frontends = frontendsOf(service, family, clusterIP, nodeIP);
  const planned: ServicePort[] = [];
  for (const spec of service.ports) {
    if (isRepeatedLater(service.ports, spec)) continue;
    const policies = trafficPolicies(service, family, spec);
    const found = categorizeEndpoints(input.endpointsOf(spec.name, spec.protocol), policies.use, input.node);
    planned.push({
      name: servicePortName(service, spec),
      protocol: spec.protocol,
      ...frontends,
      port: spec.port,
      nodePort: spec.nodePort,
      healthCheckNodePort: healthCheckNodePort(service),
      internal: verdict(policies.internalLocal, found),
      external: externalVerdict(policies.externalLocal, found),
      clusterEndpoints: found.cluster,
      localEndpoints: found.local,
      endpointsOnThisNode: found.onThisNode,
      lingeringEndpoints: spec.protocol === "udp" ? found.lingering : NONE,
      affinitySeconds: service.affinitySeconds,
    });
  }
  return planned;
}

/** How kube-proxy prints a service port. */
export function servicePortName(service: Service, spec: ServicePortSpec): ServicePortName {
  const key = serviceKey(service.namespace, service.name);
  return spec.name === "" ? key : joinFlat(":", key, spec.name);
}

/** The traffic policies in force for a service port in a family. */
export interface TrafficPolicies {
  readonly internalLocal: boolean;
  /** False also where no traffic can come from outside. */
  readonly externalLocal: boolean;
  /**
   * What it needs endpoints for. Where traffic may come from outside, policy Cluster is always among it: with external
   * policy Local it is that of the node's own traffic and of its pods.
   */
  readonly use: EndpointUse;
}

/** The traffic policies in force for a service port in a family. */
export function trafficPolicies(service: Service, family: Family, spec: ServicePortSpec): TrafficPolicies {
  const isOfFamily = (address: string) => familyOf(address) === family;
  const fromOutside = spec.nodePort !== 0 || service.externalIPs.some(isOfFamily) ||
    service.loadBalancerIPs.some(isOfFamily);
  const internalLocal = service.internalPolicyLocal;
  const externalLocal = fromOutside && isExternalPolicyLocal(service);
  return {
    internalLocal,
    externalLocal,
    use: { cluster: !internalLocal || fromOutside, local: internalLocal || externalLocal },
  };
}

/** The node port for health checks of this service's load balancer: only with policy Local, else 0. */
export function healthCheckNodePort(service: Service): number {
  return service.type === "LoadBalancer" && isExternalPolicyLocal(service) ? service.healthCheckNodePort : 0;
}

const NONE: readonly string[] = Object.freeze([]);

/** What is the same for all ports of a service. */
function frontendsOf(service: Service, family: Family, clusterIP: string, nodeIP: string) {
  const loadBalancerIPs = ofFamily(service.loadBalancerIPs, family, [clusterIP]);
  return {
    clusterIP,
    loadBalancerIPs,
    // An address in several of these lists is one frontend, the one with the most to say about it: load balancer IPs
    // have source ranges.
    externalIPs: ofFamily(service.externalIPs, family, [clusterIP, ...loadBalancerIPs]),
    loadBalancerSources: loadBalancerSources(ofFamily(service.sourceRanges, family, NONE), nodeIP),
  };
}

function ofFamily(canonical: readonly string[], family: Family, taken: readonly string[]): readonly string[] {
  if (canonical.length === 0) return NONE;
  const matching = canonical.filter((one) => familyOf(one) === family && !taken.includes(one));
  return matching.length === 0 ? NONE : [...new Set(matching)].sort();
}

/** Who may use the load balancer IPs: everyone if one of the ranges is every address (kube-proxy's newBaseServiceInfo). */
export function loadBalancerSources(ranges: readonly string[], nodeIP: string): LoadBalancerSources | undefined {
  if (ranges.length === 0 || ranges.some((range) => range.endsWith("/0"))) return undefined;
  return { ranges, includeNode: ranges.some((range) => prefixContains(range, nodeIP)) };
}

function isRepeatedLater(specs: readonly ServicePortSpec[], spec: ServicePortSpec): boolean {
  if (specs.length === 1) return false;
  return specs.findLast((other) => other.name === spec.name && other.protocol === spec.protocol) !== spec;
}

/** The external policy means something only for services that the outside can reach at all. */
function isExternalPolicyLocal(service: Service): boolean {
  return service.externalPolicyLocal &&
    (service.type === "LoadBalancer" || service.type === "NodePort" || service.externalIPs.length > 0);
}

function verdict(policyLocal: boolean, found: EndpointCategories): Verdict {
  if (!found.anyUsable) return "reject";
  if (!policyLocal) return "cluster";
  return found.local.length > 0 ? "local" : "drop";
}

/** Without a frontend for the outside there may be no endpoints to send its traffic to. */
function externalVerdict(policyLocal: boolean, found: EndpointCategories): Verdict {
  return found.cluster.length === 0 ? "reject" : verdict(policyLocal, found);
}
