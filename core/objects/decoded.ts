import type { ClusterObject, Kind, ObjectRef } from "./cluster_object.ts";

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
