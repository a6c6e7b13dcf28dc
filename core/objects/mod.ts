/**
 * Services, EndpointSlices, Nodes and ServiceCIDRs as Sluice keeps them, decoded from what a source read, and the contract of
 * sources: how they report objects.
 *
 * In: objects of the Kubernetes API as parsed JSON. Out: `ClusterObject`s, with the problems found in them. Touches nothing.
 */
export { type ClusterObject, isNamespaced, type Kind, KINDS, type ObjectRef, refOf } from "./cluster_object.ts";
export { decodeObject, decodeObjectInFull } from "./decode.ts";
export { decodeNode } from "./decode_node.ts";
export { decodeService } from "./decode_service.ts";
export { decodeServiceCIDR } from "./decode_service_cidr.ts";
export type { Decode, Decoded } from "./decoded.ts";
export type { EndpointPort, EndpointSlice, SliceEndpoint } from "./endpoint_slice.ts";
export { createInterner, internString, internStrings } from "./intern.ts";
export { isLabel, isObjectName } from "./names.ts";
export { kindsOf } from "./needed_kinds.ts";
export type { Node } from "./node.ts";
export { isWholeNumber } from "./problems.ts";
export { isRawObject, quote, type RawObject, rawObject } from "./raw.ts";
export type { Service, ServicePortSpec } from "./service.ts";
export type { ServiceCIDR } from "./service_cidr.ts";
export type { Source, SourceSink } from "./source.ts";
