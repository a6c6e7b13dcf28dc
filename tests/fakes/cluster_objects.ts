import type { EndpointSlice, SliceEndpoint } from "../../core/objects/cluster_object.ts";
import type { Node } from "../../core/objects/cluster_object.ts";
import type { Service } from "../../core/objects/cluster_object.ts";

/** A ClusterIP service at 10.0.0.1 with TCP port 80 named `http`, or as `fields` say. `at` is `namespace/name`. */
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
 * The slice `at` (`namespace/name`) of the service that its name begins with, up to the last dash (`default/web-1` is
 * of `web`), in IPv4, with port 8080 named `http`, or as `fields` say.
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

/** A ready endpoint on a node `other`, without hints, or as `fields` say. */
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

/** An endpoint that is shutting down and still serves. */
export function terminatingEndpoint(address: string, fields: Partial<SliceEndpoint> = {}): SliceEndpoint {
  return endpoint(address, { ready: false, serving: true, terminating: true, ...fields });
}

/** A node without addresses, prefixes and zone, or as `fields` say. */
export function node(name: string, fields: Partial<Node> = {}): Node {
  return { kind: "Node", name, zone: "", addresses: [], podCIDRs: [], leaving: false, ...fields };
}

function split(at: string): { readonly namespace: string; readonly name: string } {
  const slash = at.indexOf("/");
  return { namespace: at.slice(0, slash), name: at.slice(slash + 1) };
}
