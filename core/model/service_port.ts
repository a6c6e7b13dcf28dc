import { joinFlat } from "../../platform/mod.ts";

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
 * What becomes of a new connection to a frontend:
 * - `cluster`: it goes to one of `clusterEndpoints`;
 * - `local`: it goes to one of `localEndpoints`;
 * - `reject`: there is no usable endpoint anywhere, the client is told at once;
 * - `drop`: the traffic policy is Local and there is no usable endpoint on this node.
 */
export type Verdict = "cluster" | "local" | "reject" | "drop";

/** The sources that may use the load balancer IPs of a service port (`loadBalancerSourceRanges`). */
export interface LoadBalancerSources {
  /** Canonical prefixes of one family, at least one, none of which is every address. */
  readonly ranges: readonly string[];
  /** Whether the node's own address is in `ranges`. */
  readonly includeNode: boolean;
}

/** One port of one Service in one family, with every decision taken: the unit of change. */
export interface ServicePort {
  readonly name: ServicePortName;
  readonly protocol: Protocol;
  readonly clusterIP: string;
  /** The port at the cluster IP, the external IPs and the load balancer IPs. */
  readonly port: number;
  readonly externalIPs: readonly string[];
  /** Load balancer addresses that this node answers for (ipMode VIP). */
  readonly loadBalancerIPs: readonly string[];
  /** The port on the node's own addresses; 0 where there is none. */
  readonly nodePort: number;
  /** The port on which health checks of a load balancer must be let in; 0 where there is none. */
  readonly healthCheckNodePort: number;
  /** What becomes of traffic to the cluster IP. */
  readonly internal: Verdict;
  /**
   * What becomes of traffic from outside to external IPs, load balancer IPs and the node port. `local` and `drop` mean
   * that the external traffic policy is Local: traffic of this node and of its pods then goes to `clusterEndpoints`.
   */
  readonly external: Verdict;
  /**
   * The endpoints for policy Cluster, after readiness, termination and topology; in a stable order without duplicates.
   * Empty where no traffic of this service port uses that policy.
   */
  readonly clusterEndpoints: readonly string[];
  /** The endpoints for policy Local; in a stable order without duplicates. Empty where nothing uses that policy. */
  readonly localEndpoints: readonly string[];
  /** Endpoints on this node among all of the above: a pod that reaches itself must be masqueraded. */
  readonly endpointsOnThisNode: readonly string[];
  /**
   * For UDP: endpoints that get no new flows but still serve the ones they have (terminating and serving, or out of
   * favour with topology). Empty otherwise.
   */
  readonly lingeringEndpoints: readonly string[];
  /** How long a client stays with its endpoint, in seconds; 0 without session affinity. */
  readonly affinitySeconds: number;
  /** Undefined admits everyone, also where all ranges are of the other family (kube-proxy's rule). */
  readonly loadBalancerSources: LoadBalancerSources | undefined;
}
