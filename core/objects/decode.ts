import type { Kind } from "./cluster_object.ts";
import { decodeEndpointSlice } from "./decode_endpoint_slice.ts";
import { decodeNode } from "./decode_node.ts";
import { decodeService } from "./decode_service.ts";
import { readPrefixes } from "./fields.ts";
import { type Decoded, readMetadata } from "./metadata.ts";
import { createProblems } from "./problems.ts";
import { isRawObject, quote, type RawObject, rawObject } from "./raw.ts";

const DECODERS: Readonly<Record<Kind, (raw: RawObject, inFull: boolean) => Decoded>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

/** Decodes an object of any kind as kube-proxy 1.36 interprets its fields. */
export function decodeObject(kind: Kind, raw: unknown): Decoded {
  return decode(kind, raw, false);
}

/** Decodes an object with its details, for those that pass it on. */
export function decodeObjectInFull(kind: Kind, raw: unknown): Decoded {
  return decode(kind, raw, true);
}

function decode(kind: Kind, raw: unknown, inFull: boolean): Decoded {
  if (isRawObject(raw)) return DECODERS[kind](raw, inFull);
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
