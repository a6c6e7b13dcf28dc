import type { NodeDetails } from "./details.ts";

/** A Kubernetes Node, reduced to what load balancing needs; addresses and prefixes canonical. */
export interface Node {
  readonly kind: "Node";
  readonly name: string;
  /** The label `topology.kubernetes.io/zone`; empty where there is none. */
  readonly zone: string;
  /** Its addresses in the order in which they count: internal ones first, then external ones. */
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  /** Whether it is about to go away: it is being deleted, or carries an autoscaler's taint. */
  readonly leaving: boolean;
  readonly details?: NodeDetails;
}
