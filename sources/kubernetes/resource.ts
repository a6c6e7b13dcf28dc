import type { Kind } from "../../core/objects/mod.ts";

/** How a kind's objects are asked for. */
export interface Resource {
  readonly kind: Kind;
  /** The resource as RBAC names it. */
  readonly name: string;
  readonly path: string;
  /** The version of Kubernetes that began to have it, where that is not as old as what Sluice needs. */
  readonly since?: string;
  /** What becomes of it where it cannot be had; undefined for what nothing works without. */
  readonly without?: string;
  /** Query parameters that select the objects to be read. */
  readonly selectors: Readonly<Record<string, string>>;
  /** More of them, which spare traffic and change nothing else: a server that does not know them answers 400. */
  readonly sparingSelectors?: Readonly<Record<string, string>>;
}

/** Leaves out headless services. Servers know it since 1.31 (kubernetes/kubernetes#123905). */
const WITHOUT_HEADLESS = { fieldSelector: "spec.clusterIP!=None" };

/**
 * The resources of these kinds that are watched, in the order in which they are listed, with the selectors of
 * kube-proxy 1.36: services by the label of another proxy, slices by the label of headless services. For one node they
 * are that Node and no headless services; without a node name, all Nodes and headless services, which others may want.
 */
export function resourcesOf(kinds: readonly Kind[], nodeName: string | undefined): readonly Resource[] {
  const all: readonly Resource[] = [
    {
      kind: "Service",
      name: "services",
      path: "/api/v1/services",
      selectors: { labelSelector: "!service.kubernetes.io/service-proxy-name" },
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
      without: "traffic to cluster IPs that no service has is left alone instead of dropped",
      selectors: {},
    },
  ];
  return all.filter(({ kind }) => kinds.includes(kind));
}
