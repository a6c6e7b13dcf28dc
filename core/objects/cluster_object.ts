/** The Kubernetes objects that Sluice reads, each reduced at the edge to what it needs, and how they are told apart. */
import type { EndpointSlice } from "./endpoint_slice.ts";
import type { Node } from "./node.ts";
import type { Service } from "./service.ts";
import type { ServiceCIDR } from "./service_cidr.ts";

/** An object that a source hands on. */
export type ClusterObject = Service | EndpointSlice | Node | ServiceCIDR;

/** The kinds of object that are watched. */
export type Kind = ClusterObject["kind"];

/** Every kind, in the order in which they are listed. */
export const KINDS: readonly Kind[] = ["Service", "EndpointSlice", "Node", "ServiceCIDR"];

/** Whether objects of a kind are in namespaces. */
export function isNamespaced(kind: Kind): boolean {
  return kind === "Service" || kind === "EndpointSlice";
}

/** Names an object; the namespace is empty where the kind is in none. */
export interface ObjectRef {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/** The reference of an object. */
export function refOf(object: ClusterObject): ObjectRef {
  return { kind: object.kind, namespace: "namespace" in object ? object.namespace : "", name: object.name };
}
