import type { Kind, LabelKeys } from "../../core/objects/mod.ts";

/** The resource that has the objects of a kind, and the parameters of its requests. */
export interface Resource {
  readonly kind: Kind;
  /** The resource as RBAC names it. */
  readonly name: string;
  readonly path: string;
  /** The first Kubernetes version with it, if newer than the oldest that Sluice supports. */
  readonly since?: string;
  /** The effect of missing it, for an optional resource; undefined for a required one. */
  readonly without?: string;
  /** Query parameters that select the objects. */
  readonly selectors: Readonly<Record<string, string>>;
  /** Whether only the metadata of the objects is requested. */
  readonly metadataOnly?: true;
  /** Further selectors that only save traffic; a server that does not support them answers 400. */
  readonly sparingSelectors?: Readonly<Record<string, string>>;
}

/** Names the proxy of a service (KEP-2447). */
const PROXY_NAME = "service.kubernetes.io/service-proxy-name";
/** Excludes headless services; supported since 1.31 (kubernetes/kubernetes#123905). */
const WITHOUT_HEADLESS = { fieldSelector: "spec.clusterIP!=None" };

/**
 * The resources of these kinds, in the order in which they are listed, with the selectors of kube-proxy 1.37: no services of
 * another proxy (or only those with `serviceProxyName`) and no slices of headless services. For one node, only that Node and no headless services; without a node
 * name, all of them.
 */
export function resourcesOf(
  kinds: readonly Kind[],
  nodeName: string | undefined,
  serviceProxyName?: string,
  labelKeys: LabelKeys = { nodes: [], pods: [] },
): readonly Resource[] {
  const all: readonly Resource[] = [
    {
      kind: "Service",
      name: "services",
      path: "/api/v1/services",
      selectors: {
        labelSelector: serviceProxyName === undefined ? `!${PROXY_NAME}` : `${PROXY_NAME}=${serviceProxyName}`,
      },
      ...nodeName !== undefined && { sparingSelectors: WITHOUT_HEADLESS },
    },
    {
      kind: "EndpointSlice",
      name: "endpointslices.discovery.k8s.io",
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: "!service.kubernetes.io/headless" },
    },
    {
      kind: "Node",
      name: "nodes",
      path: "/api/v1/nodes",
      selectors: nodeName === undefined ? {} : { fieldSelector: `metadata.name=${nodeName}` },
    },
    {
      kind: "ServiceCIDR",
      name: "servicecidrs.networking.k8s.io",
      path: "/apis/networking.k8s.io/v1/servicecidrs",
      since: "1.33",
      without: "traffic to unused cluster IPs is not dropped",
      selectors: {},
    },
    {
      kind: "NodeLabels",
      name: "nodes",
      path: "/api/v1/nodes",
      without: "weights by labels of nodes are 1",
      selectors: withLabel(labelKeys.nodes),
      metadataOnly: true,
    },
    {
      kind: "PodLabels",
      name: "pods",
      path: "/api/v1/pods",
      without: "weights by labels of pods are 1",
      selectors: withLabel(labelKeys.pods),
      metadataOnly: true,
    },
  ];
  return all.filter(({ kind }) => kinds.includes(kind));
}

/** Selects the objects with a label. A selector cannot match any of several labels. */
function withLabel([key, ...others]: readonly string[]): Resource["selectors"] {
  return key === undefined || others.length > 0 ? {} : { labelSelector: key };
}

/** The name of the stream of a resource: Nodes are watched a second time for their labels. */
export function streamOf({ name, metadataOnly }: Resource): string {
  return metadataOnly ? `${name} (labels)` : name;
}

/** The accepted media types of answers about a resource: metadata alone if that is enough and the server supports it. */
export function acceptedTypes({ metadataOnly }: Resource, verb: "list" | "watch"): string | undefined {
  if (metadataOnly === undefined) return undefined;
  const type = verb === "list" ? "PartialObjectMetadataList" : "PartialObjectMetadata";
  return `application/json;as=${type};g=meta.k8s.io;v=v1,application/json`;
}
