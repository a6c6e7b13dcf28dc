import type { Kind } from "../../objects/mod.ts";

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
  /** Which of them are wanted, as query parameters. */
  readonly selectors: Readonly<Record<string, string>>;
}

/** What kube-proxy does not serve: services that another proxy has, and what carries the label of headless services. */
const LABEL_SELECTOR = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";

/**
 * The resources of these kinds that are watched, in the order in which they are listed, with kube-proxy's label selectors:
 * of the Nodes the one of that name, or all of them where there is none.
 */
export function resourcesOf(kinds: readonly Kind[], nodeName: string | undefined): readonly Resource[] {
  const all: readonly Resource[] = [
    { kind: "Service", name: "services", path: "/api/v1/services", selectors: { labelSelector: LABEL_SELECTOR } },
    {
      kind: "EndpointSlice",
      name: "endpointslices.discovery.k8s.io",
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: LABEL_SELECTOR },
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
