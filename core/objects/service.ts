import type { Protocol } from "../model/mod.ts";
import type { PortTarget, ServiceDetails } from "./details.ts";

/** A Kubernetes Service, reduced to what load balancing needs; addresses canonical. */
export interface Service {
  readonly kind: "Service";
  readonly namespace: string;
  readonly name: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  /** Empty for headless services. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** The load balancer's addresses that the node itself answers for (ipMode VIP, or none given). */
  readonly loadBalancerIPs: readonly string[];
  readonly ports: readonly ServicePortSpec[];
  /** 0 without ClientIP affinity. */
  readonly affinitySeconds: number;
  /** Canonical prefixes of either family. */
  readonly sourceRanges: readonly string[];
  readonly internalPolicyLocal: boolean;
  readonly externalPolicyLocal: boolean;
  /** 0 where there is none. */
  readonly healthCheckNodePort: number;
  /** Whether a label gives it to another proxy (`service.kubernetes.io/service-proxy-name`). */
  readonly leftAlone: boolean;
  /** Whether a label says that it is cluster DNS (`k8s-app: kube-dns`). */
  readonly isClusterDNS?: true;
  readonly details?: ServiceDetails;
}

/** One port of a Service. */
export interface ServicePortSpec {
  /** Empty for the only port of a service. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 where there is none. */
  readonly nodePort: number;
  readonly target?: PortTarget;
}
