import type { Kind } from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import { decodeEndpointSlice } from "./decode_endpoint_slice.ts";
import { decodeNodeLabels, decodePodLabels } from "./decode_labels.ts";
import { decodeNode } from "./decode_node.ts";
import { decodeService } from "./decode_service.ts";
import { readPrefixes } from "./fields.ts";
import { type Decode, type Decoded, readMetadata } from "./metadata.ts";
import { createProblems } from "./problems.ts";
import { isRawObject, quote, type RawObject, rawObject } from "./raw.ts";

const DECODERS: Readonly<Record<Kind, (raw: RawObject, options: DecodeOptions) => Decoded>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
  NodeLabels: decodeNodeLabels,
  PodLabels: decodePodLabels,
};

/** Decodes an object of any kind as kube-proxy 1.36 interprets its fields. */
export function decodeObject(kind: Kind, raw: unknown): Decoded {
  return decode(kind, raw, {});
}

/** A function that decodes objects with these options. */
export function createDecode(options: DecodeOptions): Decode {
  return (kind, raw) => decode(kind, raw, options);
}

function decode(kind: Kind, raw: unknown, options: DecodeOptions): Decoded {
  if (isRawObject(raw)) return DECODERS[kind](raw, options);
  return { ref: undefined, object: undefined, problems: [`${kind} is ${quote(raw)}, not an object; ignored`] };
}

/** Decodes a ServiceCIDR. As in kube-proxy, one that is not ready or being deleted counts like any other (KEP-1880). */
export function decodeServiceCIDR(raw: RawObject): Decoded {
  const { ref, problem } = readMetadata("ServiceCIDR", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const problems = createProblems();
  const cidrs = readPrefixes(rawObject(raw.spec).cidrs, "spec.cidrs", problems);
  return { ref, object: { kind: "ServiceCIDR", name: ref.name, cidrs }, problems: problems.sentences() };
}
