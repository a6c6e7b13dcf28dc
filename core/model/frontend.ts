import { hostPrefix } from "../../platform/mod.ts";
import type { ServicePort, Verdict } from "./service_port.ts";

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
   * cluster, as if it had left through a load balancer and come back (kube-proxy's short circuit).
   */
  readonly ownVerdict: Verdict;
  /** The prefixes that may connect, see `admittedSources`; undefined if every client may. */
  readonly sources: readonly string[] | undefined;
}

/**
 * The frontends of a service port: cluster IP, external IPs, load balancer IPs, node port. They are computed on demand,
 * because storing them for tens of thousands of service ports would waste memory.
 */
export function frontendsOf(servicePort: ServicePort): Frontend[] {
  const { port, nodePort, internal, external } = servicePort;
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
    });
  }
  return frontends;
}

/** Whether a service port can be reached at anything besides its cluster IP. */
export function hasExternalFrontends(
  { externalIPs, loadBalancerIPs, nodePort }: Pick<ServicePort, "externalIPs" | "loadBalancerIPs" | "nodePort">,
): boolean {
  return nodePort !== 0 || externalIPs.length > 0 || loadBalancerIPs.length > 0;
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

/** Whether a verdict follows from traffic policy Local. */
export function isPolicyLocal(verdict: Verdict): boolean {
  return verdict === "local" || verdict === "drop";
}
