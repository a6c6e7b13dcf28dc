import { type Family, familyOf, joinFlat, prefixContains } from "../../platform/mod.ts";
import {
  type LoadBalancerSources,
  type Protocol,
  type ServicePort,
  servicePortKey,
  type ServicePortName,
  type Verdict,
} from "../model/mod.ts";
import type { Service, ServicePortSpec } from "../objects/mod.ts";
import { type EndpointLabels, type ServiceEndpoint, serviceKey } from "../tracking/mod.ts";
import { type BalanceOptions, balanceRequest, planBalance, type Weighing } from "./balance.ts";
import { nodePortAddressesOf } from "./node_port_addresses.ts";
import { categorizeEndpoints, type EndpointCategories, type EndpointUse, type NodeContext } from "./endpoints.ts";

/** The data that the ports of a service are planned from. */
interface ServicePlanInput {
  readonly service: Service;
  readonly family: Family;
  readonly node: NodeContext;
  /** This node's primary address of the family. */
  readonly nodeIP: string;
  /** How services can be balanced; undefined for the mode's default in every case. */
  readonly balance?: BalanceOptions;
  /** The labels that weights refer to; none by default. */
  readonly labels?: EndpointLabels;
  /** The endpoints of one of its ports, sorted, without duplicates. */
  readonly endpointsOf: (portName: string, protocol: Protocol) => readonly ServiceEndpoint[];
  /** The TCP endpoints that do not answer this node; none by default. */
  readonly unreachable?: ReadonlySet<string> | undefined;
  /** The loads that change the weights of endpoints with counted connections; none by default. */
  readonly weighing?: Pick<Weighing, "factors"> | undefined;
}

/**
 * Plans the service ports of a service in one family: none if it has no cluster IP in the family. If several ports have the
 * same name and protocol, which the API refuses, the last one counts, as in kube-proxy.
 */
export function planService(input: ServicePlanInput): ServicePort[] {
  const { service, family, nodeIP } = input;
  const clusterIP = service.clusterIPs.find((address) =>
    familyOf(address) === family && !UNSPECIFIED.includes(address)
  );
  if (clusterIP === undefined) return [];
  const frontends = frontendsOf(service, family, clusterIP, nodeIP);
  const request = input.balance && balanceRequest(service, input.balance);
  const nodePortPrefixes = nodePortAddressesOf(service).prefixes[family];
  const planned: ServicePort[] = [];
  const last = new Map(service.ports.map((spec) => [`${spec.protocol} ${spec.name}`, spec]));
  for (const spec of service.ports) {
    const name = servicePortName(service, spec);
    if (last.get(`${spec.protocol} ${spec.name}`) !== spec) continue;
    const policies = trafficPolicies(service, family, spec);
    const known = input.endpointsOf(spec.name, spec.protocol);
    const unreachable = spec.protocol === "tcp" ? input.unreachable : undefined;
    const found = categorizeEndpoints(known, policies.use, input.node, unreachable);
    const balance = request && planBalance(
      request,
      {
        ...{ used: found, known, protocol: spec.protocol, namespace: service.namespace },
        labels: input.labels ?? NO_LABELS,
        factors: input.weighing?.factors(servicePortKey(name, spec.protocol)),
      },
      input.balance!,
    );
    // Fields listed one by one take less memory than those of a copied object.
    const port: ServicePort = {
      name,
      protocol: spec.protocol,
      clusterIP,
      loadBalancerIPs: frontends.loadBalancerIPs,
      externalIPs: frontends.externalIPs,
      loadBalancerSources: frontends.loadBalancerSources,
      port: spec.port,
      nodePort: spec.nodePort,
      healthCheckNodePort: healthCheckNodePort(service),
      internal: verdict(policies.internalLocal, found),
      // Service ports without external frontends may have no endpoints for policy Cluster.
      external: found.cluster.length === 0 ? "reject" : verdict(policies.externalLocal, found),
      clusterEndpoints: found.cluster,
      localEndpoints: found.local,
      endpointsOnThisNode: found.onThisNode,
      lingeringEndpoints: spec.protocol === "udp" ? found.lingering : NONE,
      affinitySeconds: service.affinitySeconds,
    };
    const unreachableEndpoints = found.unreachable.length > 0 ? found.unreachable : undefined;
    const limits = spec.nodePort === 0 || nodePortPrefixes === undefined ? undefined : { nodePortPrefixes };
    planned.push(
      balance || unreachableEndpoints || limits ? { ...port, balance, unreachableEndpoints, ...limits } : port,
    );
  }
  return planned;
}

/** The name of a service port, as kube-proxy prints it. */
export function servicePortName(
  service: Pick<Service, "namespace" | "name">,
  spec: Pick<ServicePortSpec, "name">,
): ServicePortName {
  const key = serviceKey(service.namespace, service.name);
  return spec.name === "" ? key : joinFlat(":", key, spec.name);
}

/** The traffic policies in effect for a service port in a family. */
interface TrafficPolicies {
  readonly internalLocal: boolean;
  /** False if no traffic can come from outside. */
  readonly externalLocal: boolean;
  /**
   * The policies that need endpoints. If traffic may come from outside, policy Cluster is always one of them: with external
   * traffic policy Local it serves the traffic of the node and its pods.
   */
  readonly use: EndpointUse;
}

/** Decides the traffic policies of a service port in a family. */
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

/** The node port for health checks of a service's load balancer; 0 unless the external traffic policy is Local. */
export function healthCheckNodePort(service: Service): number {
  return service.type === "LoadBalancer" && isExternalPolicyLocal(service) ? service.healthCheckNodePort : 0;
}

const NONE: readonly string[] = Object.freeze([]);

/** No client can connect to these; in some rules they stand for all addresses of the node. */
const UNSPECIFIED: readonly string[] = ["0.0.0.0", "::"];

const NO_LABELS: EndpointLabels = { ofNode: () => undefined, ofPod: () => undefined };

/** The addresses that all ports of a service share. */
function frontendsOf(service: Service, family: Family, clusterIP: string, nodeIP: string) {
  const loadBalancerIPs = ofFamily(service.loadBalancerIPs, family, [clusterIP, ...UNSPECIFIED]);
  return {
    loadBalancerIPs,
    // An address in several lists is one frontend. Load balancer IPs have precedence, since source ranges restrict them.
    externalIPs: ofFamily(service.externalIPs, family, [clusterIP, ...UNSPECIFIED, ...loadBalancerIPs]),
    loadBalancerSources: loadBalancerSources(ofFamily(service.sourceRanges, family, NONE), nodeIP),
  };
}

function ofFamily(canonical: readonly string[], family: Family, taken: readonly string[]): readonly string[] {
  if (canonical.length === 0) return NONE;
  const others = new Set(taken);
  const matching = canonical.filter((one) => familyOf(one) === family && !others.has(one));
  return matching.length === 0 ? NONE : [...new Set(matching)].sort();
}

/**
 * The sources that may use the load balancer IPs: all if one of the ranges covers every address (kube-proxy's
 * newBaseServiceInfo).
 */
export function loadBalancerSources(ranges: readonly string[], nodeIP: string): LoadBalancerSources | undefined {
  if (ranges.length === 0 || ranges.some((range) => range.endsWith("/0"))) return undefined;
  return { ranges, includeNode: ranges.some((range) => prefixContains(range, nodeIP)) };
}

/** The external policy has no effect on services that cannot be reached from outside. */
function isExternalPolicyLocal(service: Service): boolean {
  return service.externalPolicyLocal &&
    (service.type === "LoadBalancer" || service.type === "NodePort" || service.externalIPs.length > 0);
}

function verdict(policyLocal: boolean, found: EndpointCategories): Verdict {
  if (!found.anyUsable) return "reject";
  if (!policyLocal) return "cluster";
  return found.local.length > 0 ? "local" : "drop";
}
