/** The frontends of a service port. Whoever needs its addresses and ports takes them from here. */
import { hostPrefix, prefixContains } from "../../platform/mod.ts";
import type { Protocol, ServicePort, Verdict } from "./service_port.ts";

/** The kinds of frontends of a service port. */
export type FrontendKind = "clusterIP" | "externalIP" | "loadBalancerIP" | "nodePort";

/** An address and port that clients connect to, with the verdict on new connections. */
export interface Frontend {
  readonly kind: FrontendKind;
  /** Empty for a node port: `FamilySettings.nodePortPrefixes` selects the addresses of the node that serve it. */
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly verdict: Verdict;
  /**
   * The verdict on traffic from this node and its pods: with external traffic policy Local it may use every endpoint of the
   * cluster, as a load balancer outside would (kube-proxy's short circuit).
   */
  readonly ownVerdict: Verdict;
  /** The prefixes that may connect; undefined if every client may. */
  readonly sources: readonly string[] | undefined;
  /** For a node port: its `nodePortPrefixes`. */
  readonly destinations?: readonly string[];
}

/** The frontends of a service port, computed on demand, since storing them would waste memory. */
export function frontendsOf(servicePort: ServicePort): Frontend[] {
  const { protocol, port, nodePort, nodePortPrefixes, internal, external } = servicePort;
  const ownVerdict = isPolicyLocal(external) ? "cluster" : external;
  const outside = (kind: FrontendKind, address: string, port: number, sources?: readonly string[]): Frontend => (
    { kind, address, port, protocol, verdict: external, ownVerdict, sources }
  );
  const { clusterIP: address, externalIPs, loadBalancerIPs } = servicePort;
  const frontends: Frontend[] = [
    { kind: "clusterIP", address, port, protocol, verdict: internal, ownVerdict: internal, sources: undefined },
  ];
  for (const address of externalIPs) frontends.push(outside("externalIP", address, port));
  const sources = admittedSources(servicePort);
  for (const address of loadBalancerIPs) frontends.push(outside("loadBalancerIP", address, port, sources));
  if (nodePort !== 0) {
    const frontend = outside("nodePort", "", nodePort);
    frontends.push(nodePortPrefixes ? { ...frontend, destinations: nodePortPrefixes } : frontend);
  }
  return frontends;
}

/**
 * The prefixes that may use the load balancer IPs; undefined if every client may, or if there are none. If the node may, so may packets that
 * it sends to a load balancer IP from that same IP (kube-proxy's rule for load balancers that configure their IP on the
 * node).
 */
export function admittedSources(
  { loadBalancerSources, loadBalancerIPs }: Pick<ServicePort, "loadBalancerSources" | "loadBalancerIPs">,
): readonly string[] | undefined {
  if (loadBalancerSources === undefined || loadBalancerIPs.length === 0) return undefined;
  const { ranges, includeNode } = loadBalancerSources;
  return includeNode ? [...ranges, ...loadBalancerIPs.map(hostPrefix)] : ranges;
}

/** The node port of a service port; undefined if it has none. */
export function nodePortOf(servicePort: ServicePort): Frontend | undefined {
  return servicePort.nodePort === 0 ? undefined : frontendsOf(servicePort).at(-1);
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

/** Whether a frontend is at an address; for a node port, if that is one of the node's that the settings select. */
export function isFrontendAt({ kind, address, destinations }: Frontend, at: string): boolean {
  return kind === "nodePort" ? destinations?.some((prefix) => prefixContains(prefix, at)) ?? true : address === at;
}

/** Whether a verdict follows from traffic policy Local. */
export function isPolicyLocal(verdict: Verdict): boolean {
  return verdict === "local" || verdict === "drop";
}
