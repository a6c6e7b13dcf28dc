import { hostPrefix, joinFlat, prefixContains } from "../../platform/mod.ts";
import { type Balance, balancedList, balanceSlots } from "./balance.ts";
import type { RelayPorts } from "./delta.ts";

/** The TCP port of Sluice's own service, which no other proxy serves. */
export const INTERNAL_PORT = 10260;

/** A transport protocol, in the lower case that the kernel's tools use. */
export type Protocol = "tcp" | "udp" | "sctp";

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy prints it. */
export type ServicePortName = string;

/** Identifies a service port within a family: its name, `|` and its protocol (`default/web:http|tcp`). */
export type ServicePortKey = string;

/** The key of a service port. */
export function servicePortKey(name: ServicePortName, protocol: Protocol): ServicePortKey {
  return joinFlat("|", name, protocol);
}

/**
 * The verdict on a new connection to a frontend:
 * - `cluster`: it goes to one of `clusterEndpoints`;
 * - `local`: it goes to one of `localEndpoints`;
 * - `reject`: it is refused, since no endpoint in the cluster is usable;
 * - `drop`: it is dropped, since the traffic policy is Local and no endpoint on this node is usable.
 */
export type Verdict = "cluster" | "local" | "reject" | "drop";

/** The sources that may use the load balancer IPs of a service port (`loadBalancerSourceRanges`). */
export interface LoadBalancerSources {
  /** Canonical prefixes of one family: at least one, none of length 0. */
  readonly ranges: readonly string[];
  /** Whether the node's own address is in `ranges`. */
  readonly includeNode: boolean;
}

/** One port of one Service in one family, with every decision taken. `frontendsOf` lists its frontends. */
export interface ServicePort {
  readonly name: ServicePortName;
  readonly protocol: Protocol;
  readonly clusterIP: string;
  /** The port at the cluster IP, the external IPs and the load balancer IPs. */
  readonly port: number;
  readonly externalIPs: readonly string[];
  /** Load balancer addresses that this node answers for (ipMode VIP). */
  readonly loadBalancerIPs: readonly string[];
  /** The port on the node's own addresses; 0 for none. */
  readonly nodePort: number;
  /**
   * The prefixes to which its Service limits the node port, canonical, of this family, none of length 0: of the addresses
   * that the settings select, those in one of them serve it. Absent without a limit.
   */
  readonly nodePortPrefixes?: readonly string[];
  /** The node port that accepts health checks of a load balancer; 0 for none. */
  readonly healthCheckNodePort: number;
  /** The verdict on traffic to the cluster IP. */
  readonly internal: Verdict;
  /**
   * The verdict on traffic from outside to external IPs, load balancer IPs and the node port. `local` and `drop` mean that the
   * external traffic policy is Local: traffic from this node and its pods then goes to `clusterEndpoints`.
   */
  readonly external: Verdict;
  /**
   * The endpoints for policy Cluster, after readiness, termination and topology; in a stable order without duplicates.
   * Empty if no traffic uses that policy.
   */
  readonly clusterEndpoints: readonly string[];
  /** The endpoints for policy Local; in a stable order without duplicates. Empty if no traffic uses that policy. */
  readonly localEndpoints: readonly string[];
  /** The endpoints of both lists on this node, whose traffic to themselves must be masqueraded. */
  readonly endpointsOnThisNode: readonly string[];
  /**
   * For UDP: endpoints that get no new flows but still serve existing ones (terminating and serving, or excluded by topology
   * hints). Empty otherwise.
   */
  readonly lingeringEndpoints: readonly string[];
  /** The timeout of session affinity in seconds; 0 without session affinity. */
  readonly affinitySeconds: number;
  /** How new connections are spread over the endpoints; absent for the default of the mode. */
  readonly balance?: Balance;
  /** Undefined admits every client, also if all ranges are of the other family (kube-proxy's rule). */
  readonly loadBalancerSources: LoadBalancerSources | undefined;
  /**
   * The TCP endpoints that the lists above leave out because they do not answer this node, in a stable order. Absent if there
   * are none.
   */
  readonly unreachableEndpoints?: readonly string[];
  /** Added on the way to the worker in userspace mode; a list without a port there is served by the kernel. */
  readonly relay?: RelayPorts;
}

/**
 * The maximum number of external and load balancer IPs of a service port that have slots of their own in nftables mode. More
 * share one list, or their number would multiply the endpoints'. With eight, an endpoint takes about as much as kube-proxy's
 * chain of an endpoint.
 */
const MOST_OWN_SLOTS = 8;

/** Whether the external and load balancer IPs of a service port share one list of slots. */
export function sharesSlots({ externalIPs, loadBalancerIPs }: ServicePort): boolean {
  return externalIPs.length + loadBalancerIPs.length > MOST_OWN_SLOTS;
}

/**
 * The size of a service port in the kernel: an element for each frontend, each slot of each list, each source range and each
 * prefix of a node port. Exact to within a small factor in nftables mode; other modes need less.
 */
export function kernelSize(port: ServicePort): number {
  const { loadBalancerIPs, balance, loadBalancerSources, nodePortPrefixes } = port;
  const slots = Math.max(
    balanceSlots(balance, balancedList(port, "cluster")),
    balanceSlots(balance, balancedList(port, "local")),
  );
  const outside = port.externalIPs.length + loadBalancerIPs.length, others = 1 + (port.nodePort === 0 ? 0 : 1);
  return others + outside + slots * (others + (sharesSlots(port) ? 1 : outside)) + (nodePortPrefixes?.length ?? 0) +
    (loadBalancerIPs.length > 0 ? loadBalancerSources?.ranges.length ?? 0 : 0);
}

/** The kinds of frontends of a service port. */
export type FrontendKind = "clusterIP" | "externalIP" | "loadBalancerIP" | "nodePort";

/** An address and port that clients connect to, with the verdict on new connections. */
export interface Frontend {
  readonly kind: FrontendKind;
  /** Empty for a node port: `FamilySettings.nodePortPrefixes` selects the addresses of the node that serve it. */
  readonly address: string;
  readonly port: number;
  readonly verdict: Verdict;
  /**
   * The verdict on traffic from this node and its pods: with external traffic policy Local it may use every endpoint of the
   * cluster, as a load balancer outside would (kube-proxy's short circuit).
   */
  readonly ownVerdict: Verdict;
  /** The prefixes that may connect, see `admittedSources`; undefined if every client may. */
  readonly sources: readonly string[] | undefined;
  /** For a node port: its `nodePortPrefixes`. */
  readonly destinations?: readonly string[];
}

/**
 * The frontends of a service port: cluster IP, external IPs, load balancer IPs, node port. They are computed on demand,
 * because storing them for tens of thousands of service ports would waste memory.
 */
export function frontendsOf(servicePort: ServicePort): Frontend[] {
  const { port, nodePort, nodePortPrefixes, internal, external } = servicePort;
  const ownVerdict = isPolicyLocal(external) ? "cluster" : external;
  const at = (kind: FrontendKind, address: string, sources?: readonly string[]): Frontend => (
    { kind, address, port, verdict: external, ownVerdict, sources }
  );
  const frontends: Frontend[] = [{
    kind: "clusterIP",
    address: servicePort.clusterIP,
    port,
    verdict: internal,
    ownVerdict: internal,
    sources: undefined,
  }];
  for (const address of servicePort.externalIPs) frontends.push(at("externalIP", address));
  if (servicePort.loadBalancerIPs.length > 0) {
    const sources = admittedSources(servicePort);
    for (const address of servicePort.loadBalancerIPs) frontends.push(at("loadBalancerIP", address, sources));
  }
  if (nodePort !== 0) {
    frontends.push({
      kind: "nodePort",
      address: "",
      port: nodePort,
      verdict: external,
      ownVerdict,
      sources: undefined,
      ...nodePortPrefixes && { destinations: nodePortPrefixes },
    });
  }
  return frontends;
}

/** Whether a service port can be reached at anything other than its cluster IP. */
export function hasExternalFrontends(
  { externalIPs, loadBalancerIPs, nodePort, nodePortPrefixes }: Pick<
    ServicePort,
    "externalIPs" | "loadBalancerIPs" | "nodePort" | "nodePortPrefixes"
  >,
): boolean {
  return nodePort !== 0 && nodePortPrefixes?.length !== 0 || externalIPs.length > 0 || loadBalancerIPs.length > 0;
}

/**
 * The prefixes that may use the load balancer IPs; undefined if every client may. If the node may, so may packets that
 * it sends to a load balancer IP from that same IP (kube-proxy's rule for load balancers that configure their IP on the
 * node).
 */
export function admittedSources(
  { loadBalancerSources, loadBalancerIPs }: Pick<ServicePort, "loadBalancerSources" | "loadBalancerIPs">,
): readonly string[] | undefined {
  if (loadBalancerSources === undefined) return undefined;
  const { ranges, includeNode } = loadBalancerSources;
  return includeNode ? [...ranges, ...loadBalancerIPs.map(hostPrefix)] : ranges;
}

/** Whether a service port has its node port at an address, if that is one of the node's that the settings select. */
export function acceptsNodePortAt(
  { nodePortPrefixes }: Pick<ServicePort, "nodePortPrefixes">,
  address: string,
): boolean {
  return nodePortPrefixes === undefined || nodePortPrefixes.some((prefix) => prefixContains(prefix, address));
}

/** Whether a verdict follows from traffic policy Local. */
export function isPolicyLocal(verdict: Verdict): boolean {
  return verdict === "local" || verdict === "drop";
}

/** The endpoints (`address:port`) that a service port uses or leaves out because they are unreachable. */
export function endpointsIn({ clusterEndpoints, localEndpoints, unreachableEndpoints = [] }: ServicePort): Set<string> {
  return new Set([...clusterEndpoints, ...localEndpoints, ...unreachableEndpoints]);
}
