/**
 * Services, EndpointSlices, Nodes and ServiceCIDRs, decoded from API objects or manifests, and the contract of sources.
 *
 *   cluster_object.ts         the objects, reduced to the fields that Sluice uses
 *   decode.ts                 decodes an object of any kind
 *   decode_options.ts         which objects and details to keep
 *   decode_service.ts         decodes Services
 *   decode_endpoint_slice.ts  decodes EndpointSlices
 *   decode_node.ts            decodes Nodes
 *   metadata.ts               names and namespaces, and the result of decoding
 *   fields.ts                 readers of addresses, prefixes and ports
 *   raw.ts                    JSON of unknown shape
 *   balance_annotations.ts    how a Service asks to be balanced
 *   decode_labels.ts          labels of Nodes and Pods that weights refer to
 *   problems.ts               collects the problems of one object
 *   intern.ts                 shares equal values in memory
 *   source.ts                 the contract of sources
 *
 * In: objects of the Kubernetes API as parsed JSON. Out: `ClusterObject`s and the problems found in them. May touch: nothing.
 */
export { BALANCE_ANNOTATIONS, type BalanceAnnotations, balanceAnnotations } from "./balance_annotations.ts";
export {
  type ClusterObject,
  type EndpointPort,
  type EndpointSlice,
  isNamespaced,
  type Kind,
  KINDS,
  type LabelledObject,
  type Node,
  type NodeLabels,
  type ObjectRef,
  type PodLabels,
  type PodRef,
  refOf,
  type Service,
  type ServiceCIDR,
  type ServicePortSpec,
  type SliceEndpoint,
} from "./cluster_object.ts";
export { createDecode, decodeObject, decodeServiceCIDR } from "./decode.ts";
export { decodeNode } from "./decode_node.ts";
export { decodeService } from "./decode_service.ts";
export type { DetailFilters, KeyFilter, LabelKeys } from "./decode_options.ts";
export { createInterner, internString, internStrings } from "./intern.ts";
export { type Decode, type Decoded, isLabel, isObjectName } from "./metadata.ts";
export { isWholeNumber } from "./problems.ts";
export { isRawObject, quote, type RawObject, rawObject } from "./raw.ts";
export type { Source, SourceServer, SourceSink } from "./source.ts";
