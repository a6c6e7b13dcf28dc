import { decodeEndpointSlice } from "./decode_endpoint_slice.ts";
import { decodeNode } from "./decode_node.ts";
import { decodeServiceCIDR } from "./decode_service_cidr.ts";
import { decodeService } from "./decode_service.ts";
import type { Decoded } from "./decoded.ts";
import type { Kind } from "./mod.ts";
import { isRawObject, quote, type RawObject } from "./raw.ts";

const DECODERS: Readonly<Record<Kind, (raw: RawObject) => Decoded>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

/** Decodes an object of any kind, with the meaning that kube-proxy 1.36 gives to its fields. */
export function decodeObject(kind: Kind, raw: unknown): Decoded {
  if (isRawObject(raw)) return DECODERS[kind](raw);
  return { ref: undefined, object: undefined, problems: [`a ${kind} is ${quote(raw)}; it is left out`] };
}
