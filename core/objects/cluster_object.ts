/** The Kubernetes objects that Sluice watches, reduced to the fields it uses; addresses and prefixes are canonical. */
import { FAMILIES } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import { PROTOCOL } from "../model/mod.ts";
import { internString, internStrings } from "./intern.ts";
import { OWN_TEXTS } from "./own_annotations.ts";

/** A text that many objects have. */
const SHARED: shape.Shape<string> = { is: shape.TEXT.is, share: internString };
const SHARED_LIST: shape.Shape<readonly string[]> = { is: shape.list(shape.TEXT).is, share: internStrings };
const TEXTS = shape.list(shape.TEXT);
const LABELS: shape.Shape<Readonly<Record<string, string>>> = {
  is: (value): value is Readonly<Record<string, string>> =>
    typeof value === "object" && value !== null && Object.values(value).every(shape.TEXT.is),
  share: (labels) =>
    Object.fromEntries(Object.entries(labels).map(([key, value]) => [internString(key), internString(value)])),
};

// Load balancing needs no field `details`, `target` or `origin`. Only `sluice serve` and `sluice export`, which pass objects
// on, decode them; a proxy saves the memory.

/** The details of a Service: the chosen labels and annotations. */
const SERVICE_DETAILS = shape.record({
  labels: LABELS,
  annotations: LABELS,
  /** KPNG's `MapIP`. */
  mapIP: shape.BOOLEAN,
});

const PORT_TARGET = shape.record({
  /** 0 for a named port. */
  port: shape.COUNT,
  name: shape.TEXT,
});

/** See `PORT_TARGET`. */
export type PortTarget = shape.TypeOf<typeof PORT_TARGET>;

const SERVICE_PORT_SPEC = shape.record({
  /** Empty for the only port of a service. */
  name: SHARED,
  protocol: PROTOCOL,
  port: shape.COUNT,
  /** 0 if unset. */
  nodePort: shape.COUNT,
  target: shape.optional(PORT_TARGET),
});

/** See `SERVICE_PORT_SPEC`. */
export interface ServicePortSpec extends shape.TypeOf<typeof SERVICE_PORT_SPEC> {}

const SERVICE = shape.record({
  kind: shape.oneOf("Service"),
  namespace: SHARED,
  name: SHARED,
  type: shape.oneOf("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
  /** Empty for headless services. */
  clusterIPs: TEXTS,
  externalIPs: TEXTS,
  /** The load balancer IPs that the node itself serves (ipMode VIP or unset). */
  loadBalancerIPs: TEXTS,
  /** The load balancer IPs whose traffic goes through the load balancer (ipMode Proxy); absent without any. */
  proxiedIPs: shape.optional(TEXTS),
  ports: shape.list(SERVICE_PORT_SPEC),
  /** The timeout of ClientIP affinity; 0 without affinity. */
  affinitySeconds: shape.COUNT,
  /** Canonical prefixes of either family. */
  sourceRanges: TEXTS,
  internalPolicyLocal: shape.BOOLEAN,
  externalPolicyLocal: shape.BOOLEAN,
  /** 0 if unset. */
  healthCheckNodePort: shape.COUNT,
  /** Whether it is another proxy's, by the label `service.kubernetes.io/service-proxy-name`. */
  ignored: shape.BOOLEAN,
  /** A hash of the selector of its pods; absent if it has none or the source does not say. */
  selector: shape.optional(shape.COUNT),
  /** When it was created, in seconds since 1970; absent if the source does not say. */
  createdSeconds: shape.optional(shape.COUNT),
  /** Whether the label `k8s-app: kube-dns` marks it as cluster DNS. */
  isClusterDNS: shape.optional(shape.oneOf(true)),
  /** The annotations of Sluice's own; absent if it has none. */
  own: shape.optional(OWN_TEXTS),
  details: shape.optional(SERVICE_DETAILS),
});

/** A Service. */
export interface Service extends shape.TypeOf<typeof SERVICE> {}

/** A port that every endpoint of a slice serves. */
const ENDPOINT_PORT = shape.record({ name: SHARED, protocol: PROTOCOL, port: shape.COUNT });

/** See `ENDPOINT_PORT`. */
export interface EndpointPort extends shape.TypeOf<typeof ENDPOINT_PORT> {}

const POD_REF = shape.record({ namespace: SHARED, name: SHARED, uid: SHARED });

/** See `POD_REF`. */
export interface PodRef extends shape.TypeOf<typeof POD_REF> {}

const ENDPOINT_DETAILS = shape.record({ podName: shape.TEXT, hostname: shape.TEXT });

/** See `ENDPOINT_DETAILS`. */
export type EndpointDetails = shape.TypeOf<typeof ENDPOINT_DETAILS>;

const SLICE_ENDPOINT = shape.record({
  address: shape.TEXT,
  ready: shape.BOOLEAN,
  serving: shape.BOOLEAN,
  terminating: shape.BOOLEAN,
  /** Empty if unknown. */
  nodeName: SHARED,
  zone: SHARED,
  /** The zones whose nodes should use it; undefined without a hint. */
  zoneHints: shape.orUndefined(SHARED_LIST),
  /** The nodes that should use it; undefined without a hint. */
  nodeHints: shape.orUndefined(SHARED_LIST),
  /** Its pod; only set if `DecodeOptions.podsOf` selects it, or a server sent it. */
  pod: shape.optional(POD_REF),
  /** The name of its pod; only kept if weights may refer to labels of pods. */
  podName: shape.optional(SHARED),
  details: shape.optional(ENDPOINT_DETAILS),
});

/** See `SLICE_ENDPOINT`. */
export interface SliceEndpoint extends shape.TypeOf<typeof SLICE_ENDPOINT> {}

const ENDPOINT_SLICE = shape.record({
  kind: shape.oneOf("EndpointSlice"),
  namespace: SHARED,
  name: shape.TEXT,
  /** The service it belongs to, from the label `kubernetes.io/service-name`. */
  serviceName: SHARED,
  family: shape.oneOf(...FAMILIES),
  ports: shape.list(ENDPOINT_PORT),
  endpoints: shape.list(SLICE_ENDPOINT),
  /**
   * The time at which the change in this version was triggered (annotation `endpoints.kubernetes.io/last-change-trigger-time`), in
   * milliseconds since 1970; 0 if unknown.
   */
  triggerTimeMs: shape.COUNT,
  /** The origin of a slice that was not received as one: KPNG's `SourceName`, which several slices can share. */
  origin: shape.optional(shape.record({ source: shape.TEXT })),
});

/** An EndpointSlice. */
export interface EndpointSlice extends shape.TypeOf<typeof ENDPOINT_SLICE> {}

const NODE = shape.record({
  kind: shape.oneOf("Node"),
  name: shape.TEXT,
  /** The label `topology.kubernetes.io/zone`; empty if unset. */
  zone: SHARED,
  /** Its addresses by preference: internal ones, then external ones. */
  addresses: TEXTS,
  podCIDRs: TEXTS,
  /** Whether it is being deleted or carries the cluster autoscaler's deletion taint. */
  leaving: shape.BOOLEAN,
  /** The UID, which distinguishes a Node from an earlier one with the same name; absent if the source has none. */
  uid: shape.optional(shape.TEXT),
  /** The chosen labels and annotations. */
  details: shape.optional(shape.record({ labels: LABELS, annotations: LABELS })),
});

/** A Node. */
export interface Node extends shape.TypeOf<typeof NODE> {}

const SERVICE_CIDR = shape.record({
  kind: shape.oneOf("ServiceCIDR"),
  name: shape.TEXT,
  /** Canonical prefixes of either family. */
  cidrs: TEXTS,
});

/** A ServiceCIDR: a range from which cluster IPs are allocated. */
export interface ServiceCIDR extends shape.TypeOf<typeof SERVICE_CIDR> {}

const NODE_LABELS = shape.record({
  kind: shape.oneOf("NodeLabels"),
  name: shape.TEXT,
  /** Never empty. */
  labels: LABELS,
});

/** Labels of a Node that weights may refer to. */
export interface NodeLabels extends shape.TypeOf<typeof NODE_LABELS> {}

const POD_LABELS = shape.record({
  kind: shape.oneOf("PodLabels"),
  namespace: SHARED,
  name: shape.TEXT,
  /** Never empty. */
  labels: LABELS,
});

/** Labels of a Pod that weights may refer to. */
export interface PodLabels extends shape.TypeOf<typeof POD_LABELS> {}

/** The declarations of the objects by kind. */
export const CLUSTER_OBJECTS = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
  NodeLabels: NODE_LABELS,
  PodLabels: POD_LABELS,
};

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
