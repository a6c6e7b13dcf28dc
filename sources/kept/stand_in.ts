import { type ClusterObject, type Kind, type ObjectRef, refOf, type SourceSink } from "../../core/objects/mod.ts";
import { createResetTracker, serviceKey } from "../../core/tracking/mod.ts";

/** Options of `createStandIn`. */
export interface StandInOptions {
  readonly sink: SourceSink;
  /** The kinds that the source reports. */
  readonly kinds: readonly Kind[];
  /** The objects that the sink has. */
  readonly objects: () => Iterable<ClusterObject>;
  /** Called when the source has added, changed or deleted an object. */
  readonly onChange: () => void;
  /** Called once: the source has synced every kind. */
  readonly onSynced: () => void;
}

/** Kept objects in place of those that the source has not sent yet. */
export interface StandIn {
  /** Receives the source's objects, and passes them on. */
  readonly sink: SourceSink;
  /** Whether the source has synced every kind. */
  isOver(): boolean;
  /**
   * Sets these objects, except for those that the source has set, in the kinds that it has not synced, which then count as
   * synced. When it syncs such a kind, those that it has not set are deleted: only the difference has an effect.
   */
  serve(kept: readonly ClusterObject[]): void;
  /** Sets objects that were served, except for those that the source has set or deleted, or whose kind it has synced. */
  revise(kept: readonly ClusterObject[]): void;
}

/** Creates a stand-in that has not served anything yet. */
export function createStandIn({ sink, kinds, objects, onChange, onSynced }: StandInOptions): StandIn {
  const unsynced = new Set<Kind>(kinds);
  const unconfirmed = createResetTracker();

  const synced = (kind: Kind) => {
    for (const ref of unconfirmed.finish(kind)) sink.delete(ref);
    sink.synced(kind);
    if (unsynced.delete(kind) && unsynced.size === 0) onSynced();
  };

  return {
    sink: {
      set(object) {
        unconfirmed.confirm(refOf(object));
        sink.set(object);
        onChange();
      },
      delete(ref) {
        unconfirmed.confirm(ref);
        sink.delete(ref);
        onChange();
      },
      reset: (kind) => sink.reset(kind),
      synced,
      problems: sink.problems,
    },
    isOver: () => unsynced.size === 0,
    serve(kept) {
      const existing = new Set(Array.from(objects(), (object) => keyOf(refOf(object))));
      const missing = kept.filter((object) => unsynced.has(object.kind) && !existing.has(keyOf(refOf(object))));
      for (const object of missing) sink.set(object);
      for (const kind of unsynced) {
        unconfirmed.start(kind, missing.filter((object) => object.kind === kind).map(refOf));
        sink.synced(kind);
      }
    },
    revise(kept) {
      for (const object of kept) if (unconfirmed.isOpen(refOf(object))) sink.set(object);
    },
  };
}

function keyOf({ kind, namespace, name }: ObjectRef): string {
  return `${kind} ${serviceKey(namespace, name)}`;
}
