import type { EndpointSlice, Node, Service, SliceEndpoint } from "../../core/objects/cluster_object.ts";

/** A ClusterIP service at 10.0.0.1 with TCP port 80 named `http`; `fields` override. `at` is `namespace/name`. */
export function service(at: string, fields: Partial<Service> = {}): Service {
  return {
    kind: "Service",
    ...split(at),
    type: "ClusterIP",
    clusterIPs: ["10.0.0.1"],
    externalIPs: [],
    loadBalancerIPs: [],
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }],
    affinitySeconds: 0,
    sourceRanges: [],
    internalPolicyLocal: false,
    externalPolicyLocal: false,
    healthCheckNodePort: 0,
    ignored: false,
    ...fields,
  };
}

/**
 * An IPv4 slice `at` (`namespace/name`) with port 8080 named `http`; `fields` override. The part of its name before the last
 * dash is the service (`default/web-1` belongs to `web`).
 */
export function endpointSlice(
  at: string,
  endpoints: readonly SliceEndpoint[],
  fields: Partial<EndpointSlice> = {},
): EndpointSlice {
  const { namespace, name } = split(at);
  return {
    kind: "EndpointSlice",
    namespace,
    name,
    serviceName: name.slice(0, name.lastIndexOf("-")),
    family: "IPv4",
    ports: [{ name: "http", protocol: "tcp", port: 8080 }],
    endpoints,
    triggerTimeMs: 0,
    ...fields,
  };
}

/** A ready endpoint on node `other`, without hints; `fields` override. */
export function endpoint(address: string, fields: Partial<SliceEndpoint> = {}): SliceEndpoint {
  return {
    address,
    ready: true,
    serving: true,
    terminating: false,
    nodeName: "other",
    zone: "",
    zoneHints: undefined,
    nodeHints: undefined,
    ...fields,
  };
}

/** A terminating endpoint that is still serving. */
export function terminatingEndpoint(address: string, fields: Partial<SliceEndpoint> = {}): SliceEndpoint {
  return endpoint(address, { ready: false, serving: true, terminating: true, ...fields });
}

/** A node without addresses, prefixes and zone; `fields` override. */
export function node(name: string, fields: Partial<Node> = {}): Node {
  return { kind: "Node", name, zone: "", addresses: [], podCIDRs: [], leaving: false, ...fields };
}

function split(at: string): { readonly namespace: string; readonly name: string } {
  const slash = at.indexOf("/");
  return { namespace: at.slice(0, slash), name: at.slice(slash + 1) };
}
