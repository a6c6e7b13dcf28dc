import { decodeEndpointSlice } from "./decode_endpoint_slice.ts";
import { decodeNode } from "./decode_node.ts";
import { decodeService } from "./decode_service.ts";
import type { ClusterObject, Kind, ObjectRef } from "./mod.ts";
import { isRawObject, quote, type RawObject } from "./raw.ts";

/** What became of an object as the API or a manifest has it. */
export interface Decoded {
  /** Which object it is; undefined where not even that can be told. */
  readonly ref: ObjectRef | undefined;
  /** The object, or undefined where it is none of ours (a slice of FQDNs) or cannot be used at all. */
  readonly object: ClusterObject | undefined;
  /** What in it cannot be used, one sentence each; the rest of the object is used all the same. */
  readonly problems: readonly string[];
}

/** Reduces the JSON of an object to what Sluice uses; never throws, whatever it is given. */
export type Decode = (kind: Kind, raw: unknown) => Decoded;

const DECODERS: Readonly<Record<Kind, (raw: RawObject) => Decoded>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
};

/** Decodes an object of any kind, with the meaning that kube-proxy 1.36 gives to its fields. */
export function decodeObject(kind: Kind, raw: unknown): Decoded {
  if (isRawObject(raw)) return DECODERS[kind](raw);
  return { ref: undefined, object: undefined, problems: [`a ${kind} is ${quote(raw)}; it is left out`] };
}
