import { type ClusterObject, type ObjectRef, refOf, type SourceSink } from "../../core/objects/mod.ts";
import { sameData } from "../../platform/mod.ts";
import type { PlacedObject } from "./file.ts";

/** Tells a sink what all files together say, by the difference to what it was told before. */
export interface Emitter {
  /** These are all objects that there are, those that count first in front. */
  emit(objects: Iterable<PlacedObject>): void;
}

/** Starts with a sink that has been told nothing. */
export function createEmitter(sink: SourceSink): Emitter {
  let told = new Map<string, ClusterObject>();
  let doubles = new Set<string>();

  return {
    emit(objects) {
      const places = new Map<string, PlacedObject>();
      const newDoubles = new Set<string>();
      for (const placed of objects) {
        const key = keyOf(refOf(placed.object));
        const first = places.get(key);
        if (first === undefined) {
          places.set(key, placed);
          continue;
        }
        const where = placed.where();
        const message = `${key} is also at ${first.where()}; that one counts, this one is left out`;
        newDoubles.add(`${where} ${message}`);
        if (!doubles.has(`${where} ${message}`)) sink.problem(where, message);
      }
      doubles = newDoubles;

      const now = new Map<string, ClusterObject>();
      for (const [key, object] of told) if (!places.has(key)) sink.delete(refOf(object));
      for (const [key, { object }] of places) {
        const before = told.get(key);
        const same = before !== undefined && sameData(before, object);
        if (!same) sink.set(object);
        now.set(key, same ? before : object);
      }
      told = now;
    },
  };
}

function keyOf(ref: ObjectRef): string {
  return ref.namespace === "" ? `${ref.kind} ${ref.name}` : `${ref.kind} ${ref.namespace}/${ref.name}`;
}
