import { joinFlat } from "../../platform/mod.ts";
import type { Balance } from "./balance.ts";
import type { RelayPorts } from "./relay_ports.ts";

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
