/** API objects of the scenarios' cluster: services with one port, three out of four IPv4, the rest IPv6. */
import { NETWORK } from "../../demo/lab.ts";
import type { Family } from "../../platform/address.ts";
import type { ApiObject, FakeApiServer } from "../fakes/api_server.ts";

/** An endpoint: the name of a lab pod, the address of a pod that does not exist, or a pod of this node with another address. */
export type EndpointTarget = keyof typeof NETWORK.pods | { readonly address: string; readonly pod?: string };

/** The two pods behind every probed service. */
export const SERVING = ["pod-2", "pod-3"] as const;

const FIRST_CLUSTER_IP = 256;
const CHANGED_AT_ONCE = 40;

/** The family of a service. */
export function familyOf(index: number): Family {
  return index % 4 === 3 ? "IPv6" : "IPv4";
}

/** Whether lab pods back the service, so that connections to it can succeed. */
export function isProbed(index: number): boolean {
  return index % 10 < 4 && index % 40 >= 20;
}

/** The cluster IP of a service. */
export function clusterIP(index: number): string {
  const number = FIRST_CLUSTER_IP + index;
  return familyOf(index) === "IPv4" ? `10.96.${number >> 8}.${number & 255}` : `fd00:10:96::1:${number.toString(16)}`;
}

/** The name of a service and of its slice. */
export function serviceName(index: number): string {
  return `svc-${index}`;
}

/** This lab's Node object. */
export function node(): ApiObject {
  const { nodeName, clusterCIDR } = NETWORK;
  return {
    kind: "Node",
    metadata: { name: nodeName },
    spec: { podCIDRs: Object.values(clusterCIDR) },
    status: { addresses: Object.values(NETWORK.node).map((address) => ({ type: "InternalIP", address })) },
  };
}

/** A ClusterIP service with port 80; `spec` overrides any field. */
export function service(name: string, clusterIPs: readonly string[], spec: Record<string, unknown> = {}): ApiObject {
  const families = clusterIPs.map((ip) => ip.includes(":") ? "IPv6" : "IPv4");
  return {
    kind: "Service",
    metadata: { name, namespace: "default" },
    spec: {
      type: "ClusterIP",
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: families,
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: NETWORK.podPort }],
      ...spec,
    },
    status: { loadBalancer: {} },
  };
}

/** The UID of a pod. */
export function uidOf(pod: string): string {
  return `uid-of-${pod}`;
}

/** The EndpointSlice of a service in one family. */
export function slice(serviceName: string, family: Family, targets: readonly EndpointTarget[]): ApiObject {
  return {
    kind: "EndpointSlice",
    metadata: {
      name: `${serviceName}-${family.toLowerCase()}`,
      namespace: "default",
      labels: { "kubernetes.io/service-name": serviceName },
    },
    addressType: family,
    endpoints: targets.map((target) => {
      const { address, pod } = typeof target === "string"
        ? { address: NETWORK.pods[target][family], pod: target }
        : target;
      return {
        addresses: [address],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: pod === undefined || pod === "pod-3" ? "other-node" : NETWORK.nodeName,
        targetRef: pod === undefined ? undefined : { kind: "Pod", namespace: "default", name: pod, uid: uidOf(pod) },
      };
    }),
    ports: [{ name: "http", protocol: "TCP", port: NETWORK.podPort }],
  };
}

/** The `index`th service. */
export function clusterService(index: number): ApiObject {
  return service(serviceName(index), [clusterIP(index)]);
}

/** The slice of the `index`th service: the lab's serving pods, or three endpoints, one of which changes every round. */
export function clusterSlice(index: number, round = 0): ApiObject {
  const family = familyOf(index);
  if (isProbed(index)) return slice(serviceName(index), family, SERVING);
  const address = (network: number, i: number) =>
    family === "IPv4"
      ? `10.${network}.${index >> 8}.${(index & 255) ^ i}`
      : `fd00:${network}::${index.toString(16)}:${i + 1}`;
  const moving = address(150 + round % 50, 0);
  return slice(serviceName(index), family, [moving, address(128, 0), address(129, 0)].map((a) => ({ address: a })));
}

/** The node, `size` services and their slices. */
export function cluster(size: number): ApiObject[] {
  const indexes = Array.from({ length: size }, (_, index) => index);
  return [node(), ...indexes.map(clusterService), ...indexes.map((index) => clusterSlice(index))];
}

/** Indexes of the probed services in a cluster of this size. */
export function probedServices(size: number): number[] {
  return Array.from({ length: size }, (_, index) => index).filter(isProbed);
}

/**
 * Changes endpoints, deletes services and recreates them in a cluster of this size. Probed services always keep a ready
 * endpoint, and every round differs from the one before.
 */
export function change({ api }: { readonly api: FakeApiServer }, size: number, round: number): void {
  for (let n = 0; n < CHANGED_AT_ONCE; n++) {
    const index = (round * 37 + n * 23) % size;
    const kept = round % 3 === 2 ? SERVING : [SERVING[round % 2]!];
    if (isProbed(index)) api.apply(slice(serviceName(index), familyOf(index), kept));
    else if (n % 4 === 0 && round % 2 === 0) api.remove(clusterService(index));
    else api.apply(clusterService(index), clusterSlice(index, round + 1));
  }
}
