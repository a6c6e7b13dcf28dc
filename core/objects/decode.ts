import { decodeEndpointSlice } from "./decode_endpoint_slice.ts";
import { decodeNode } from "./decode_node.ts";
import { decodeServiceCIDR } from "./decode_service_cidr.ts";
import { decodeService } from "./decode_service.ts";
import type { Decoded } from "./decoded.ts";
import type { Kind } from "./cluster_object.ts";
import { isRawObject, quote, type RawObject } from "./raw.ts";

const DECODERS: Readonly<Record<Kind, (raw: RawObject, inFull: boolean) => Decoded>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

/** Decodes an object of any kind, with the meaning that kube-proxy 1.36 gives to its fields. */
export function decodeObject(kind: Kind, raw: unknown): Decoded {
  return decode(kind, raw, false);
}

/** The same, with the details that those need who hand the object on. */
export function decodeObjectInFull(kind: Kind, raw: unknown): Decoded {
  return decode(kind, raw, true);
}

function decode(kind: Kind, raw: unknown, inFull: boolean): Decoded {
  if (isRawObject(raw)) return DECODERS[kind](raw, inFull);
  return { ref: undefined, object: undefined, problems: [`a ${kind} is ${quote(raw)}; it is left out`] };
}
