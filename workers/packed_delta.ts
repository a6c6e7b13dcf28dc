/** Deltas on the way to a worker: of a large service port that both sides have, only the changed endpoints travel. */
import {
  differsInEndpointsOnly,
  ENDPOINT_EDITS,
  endpointEdits,
  FAMILY_DELTA,
  type FamilyDelta,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  withEdits,
} from "../core/model/mod.ts";
import * as shape from "../platform/shapes/mod.ts";

/** A delta with changes of service ports that both sides have. */
export const PACKED_DELTA = shape.record({
  ...FAMILY_DELTA.fields,
  /** Service ports of the delta's `set` that are not in this one's. */
  edited: shape.optional(shape.list(ENDPOINT_EDITS)),
});

/** See `PACKED_DELTA`. */
export interface PackedDelta extends shape.TypeOf<typeof PACKED_DELTA> {}

/** A service port with as many endpoints is large: both sides keep its last version. */
const LARGE = 100;

/** The large service ports as of the last delta. */
type LargePorts = Map<ServicePortKey, ServicePort>;

function note(large: LargePorts, { base, deleted, set }: FamilyDelta): void {
  if (base === undefined) large.clear();
  for (const key of deleted) large.delete(key);
  for (const port of set) {
    const key = servicePortKey(port.name, port.protocol);
    if (port.clusterEndpoints.length + port.localEndpoints.length < LARGE) large.delete(key);
    else large.set(key, port);
  }
}

/** Creates a function that packs the deltas to one worker, in order. */
export function createPacking(): (delta: FamilyDelta) => PackedDelta {
  const sent: LargePorts = new Map();
  return (delta) => {
    const set: ServicePort[] = [], edited = [];
    for (const port of delta.set) {
      const before = delta.base === undefined ? undefined : sent.get(servicePortKey(port.name, port.protocol));
      if (before !== undefined && differsInEndpointsOnly(before, port)) edited.push(endpointEdits(before, port));
      else set.push(port);
    }
    note(sent, delta);
    return edited.length === 0 ? delta : { ...delta, set, edited };
  };
}

/** Creates a function that restores the deltas of `createPacking`. It throws if one changes an unknown service port. */
export function createUnpacking(): (packed: PackedDelta) => FamilyDelta {
  const received: LargePorts = new Map();
  return ({ edited = [], ...packed }) => {
    const changed = edited.map((edits) => {
      const before = received.get(edits.key);
      if (before === undefined) throw new Error(`message refused: it changes the unknown service port ${edits.key}`);
      return withEdits(before, edits);
    });
    const delta = { ...packed, set: [...packed.set, ...changed] };
    note(received, delta);
    return delta;
  };
}
