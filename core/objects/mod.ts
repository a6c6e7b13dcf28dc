/**
 * Services, EndpointSlices, Nodes and ServiceCIDRs, decoded from API objects or manifests, and the contract of sources.
 *
 *   cluster_object.ts         the objects, reduced to the fields that Sluice uses
 *   live_pod.ts               the pods of this node, as its container runtime knows them
 *   decode.ts                 decodes an object of any kind
 *   decode_options.ts         which objects and details to keep
 *   decode_service.ts         decodes Services
 *   metadata.ts               names and namespaces, and the result of decoding
 *   fields.ts                 readers of lists, addresses, prefixes and ports, and the problems found
 *   raw.ts                    JSON of unknown shape
 *   own_annotations.ts        the annotations of Sluice's own, unparsed
 *   intern.ts                 shares equal values in memory
 *   source.ts                 the contract of sources
 *
 * In: objects of the Kubernetes API as parsed JSON. Out: `ClusterObject`s and the problems found in them. May touch: nothing.
 */
export * from "./cluster_object.ts";
export type * from "./live_pod.ts";
export { createDecode, decodeObject, SERVICE_NAME } from "./decode.ts";
export type * from "./decode_options.ts";
export { createInterner, internString, internStrings } from "./intern.ts";
export { type Decode, type Decoded, isLabel, isObjectName } from "./metadata.ts";
export { isWholeNumber } from "./fields.ts";
export { LONGEST_ANNOTATION, OWN_ANNOTATIONS, type OwnAnnotation, ownAnnotations } from "./own_annotations.ts";
export { isRawObject, quote, type RawObject, rawObject } from "./raw.ts";
export * from "./source.ts";
