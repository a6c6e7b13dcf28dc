/** The Kubernetes objects that Sluice watches, reduced to the fields it uses; addresses and prefixes are canonical. */
import type { Family } from "../../platform/mod.ts";
import type { Protocol } from "../model/mod.ts";
import type { BalanceAnnotations } from "./balance_annotations.ts";

/** An object of any watched kind. */
export type ClusterObject = Service | EndpointSlice | Node | ServiceCIDR | LabelledObject;

/** The labels of an object, without the object. */
export type LabelledObject = NodeLabels | PodLabels;

/** The kinds of objects that can be watched. */
export type Kind = ClusterObject["kind"];

/** Every kind that proxies need, in the order in which they are listed; labels are watched on request, on top of these. */
export const KINDS: readonly Exclude<Kind, LabelledObject["kind"]>[] = [
  "Service",
  "EndpointSlice",
  "Node",
  "ServiceCIDR",
];

/** Whether objects of a kind are namespaced. */
export function isNamespaced(kind: Kind): boolean {
  return kind === "Service" || kind === "EndpointSlice" || kind === "PodLabels";
}

/** A reference to an object; the namespace of a cluster-scoped one is empty. */
export interface ObjectRef {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/** The reference to an object. */
export function refOf(object: ClusterObject): ObjectRef {
  return { kind: object.kind, namespace: "namespace" in object ? object.namespace : "", name: object.name };
}

/** Formats a reference: `Service default/web`, `Node worker-1`. */
export function refText({ kind, namespace, name }: ObjectRef): string {
  return namespace === "" ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

/** A Service. */
export interface Service {
  readonly kind: "Service";
  readonly namespace: string;
  readonly name: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  /** Empty for headless services. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** The load balancer IPs that the node itself serves (ipMode VIP or unset). */
  readonly loadBalancerIPs: readonly string[];
  readonly ports: readonly ServicePortSpec[];
  /** The timeout of ClientIP affinity; 0 without affinity. */
  readonly affinitySeconds: number;
  /** Canonical prefixes of either family. */
  readonly sourceRanges: readonly string[];
  readonly internalPolicyLocal: boolean;
  readonly externalPolicyLocal: boolean;
  /** 0 if unset. */
  readonly healthCheckNodePort: number;
  /** Whether it is another proxy's, by the label `service.kubernetes.io/service-proxy-name`. */
  readonly ignored: boolean;
  /** When it was created, in seconds since 1970; absent if the source does not say. */
  readonly createdSeconds?: number;
  /** Whether the label `k8s-app: kube-dns` marks it as cluster DNS. */
  readonly isClusterDNS?: true;
  /** The balancing annotations; absent if it has none. */
  readonly balancing?: BalanceAnnotations;
  /** The annotation that limits its node ports to some addresses of a node, unparsed; absent if it has none. */
  readonly nodePortAddresses?: string;
  readonly details?: ServiceDetails;
}

/** One port of a Service. */
export interface ServicePortSpec {
  /** Empty for the only port of a service. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 if unset. */
  readonly nodePort: number;
  readonly target?: PortTarget;
}

/** An EndpointSlice. */
export interface EndpointSlice {
  readonly kind: "EndpointSlice";
  readonly namespace: string;
  readonly name: string;
  /** The service it belongs to, from the label `kubernetes.io/service-name`. */
  readonly serviceName: string;
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly SliceEndpoint[];
  /**
   * The time at which the change in this version was triggered (annotation `endpoints.kubernetes.io/last-change-trigger-time`), in
   * milliseconds since 1970; 0 if unknown.
   */
  readonly triggerTimeMs: number;
  readonly origin?: SliceOrigin;
}

/** A port that every endpoint of a slice serves. */
export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** One endpoint of a slice. */
export interface SliceEndpoint {
  readonly address: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Empty if unknown. */
  readonly nodeName: string;
  readonly zone: string;
  /** The zones whose nodes should use it; undefined without a hint. */
  readonly zoneHints: readonly string[] | undefined;
  /** The nodes that should use it; undefined without a hint. */
  readonly nodeHints: readonly string[] | undefined;
  /** Its pod; only set if `DecodeOptions.podsOf` selects it, or a server sent it. */
  readonly pod?: PodRef;
  /** The name of its pod; only kept if weights may refer to labels of pods. */
  readonly podName?: string;
  readonly details?: EndpointDetails;
}

/** A reference to a pod. */
export interface PodRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A Node. */
export interface Node {
  readonly kind: "Node";
  readonly name: string;
  /** The label `topology.kubernetes.io/zone`; empty if unset. */
  readonly zone: string;
  /** Its addresses by preference: internal ones, then external ones. */
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  /** Whether it is being deleted or carries the cluster autoscaler's deletion taint. */
  readonly leaving: boolean;
  /** The UID, which distinguishes a Node from an earlier one with the same name; absent if the source has none. */
  readonly uid?: string;
  readonly details?: NodeDetails;
}

/** A ServiceCIDR: a range from which cluster IPs are allocated. */
export interface ServiceCIDR {
  readonly kind: "ServiceCIDR";
  readonly name: string;
  /** Canonical prefixes of either family. */
  readonly cidrs: readonly string[];
}

/** Labels of a Node that weights may refer to. */
export interface NodeLabels {
  readonly kind: "NodeLabels";
  readonly name: string;
  /** Never empty. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Labels of a Pod that weights may refer to. */
export interface PodLabels {
  readonly kind: "PodLabels";
  readonly namespace: string;
  readonly name: string;
  /** Never empty. */
  readonly labels: Readonly<Record<string, string>>;
}

// Load balancing needs none of the details below. Only `sluice serve` and `sluice export`, which pass objects on, decode
// them; a proxy saves the memory.

/** The details of a Service: the chosen labels and annotations. */
export interface ServiceDetails {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** KPNG's `MapIP`. */
  readonly mapIP: boolean;
}

/** The target port of a service port. */
export interface PortTarget {
  /** 0 for a named port. */
  readonly port: number;
  readonly name: string;
}

/** The origin of an EndpointSlice that was not received as one. */
export interface SliceOrigin {
  /** KPNG's `SourceName`, which several slices can share. */
  readonly source: string;
}

/** The details of an endpoint. */
export interface EndpointDetails {
  readonly podName: string;
  readonly hostname: string;
}

/** The details of a Node: the chosen labels and annotations. */
export interface NodeDetails {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
