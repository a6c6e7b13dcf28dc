import { type ClusterObject, type ObjectRef, refOf, type SourceSink } from "../../core/objects/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import { sameData } from "../../platform/mod.ts";
import type { PlacedObject } from "./files.ts";

/** Reports the objects of all files to a sink, as differences to the last report. */
export interface Emitter {
  /** Reports these objects as the complete state; of duplicates, the first counts. */
  emit(objects: Iterable<PlacedObject>): void;
}

/** An emitter that has reported nothing. */
export function createEmitter(sink: SourceSink): Emitter {
  let reported = new Map<string, ClusterObject>();

  return {
    emit(objects) {
      const places = new Map<string, PlacedObject>();
      const duplicates: Problem[] = [];
      for (const placed of objects) {
        const key = keyOf(refOf(placed.object));
        const first = places.get(key);
        if (first === undefined) {
          places.set(key, placed);
          continue;
        }
        duplicates.push({
          code: "object-duplicated",
          subject: placed.where(),
          detail: `${key} is also defined at ${first.where()}; this duplicate is ignored`,
        });
      }
      sink.problems("manifests: duplicates", duplicates);

      const now = new Map<string, ClusterObject>();
      for (const [key, object] of reported) if (!places.has(key)) sink.delete(refOf(object));
      for (const [key, { object }] of places) {
        const before = reported.get(key);
        const same = before !== undefined && sameData(before, object);
        if (!same) sink.set(object);
        now.set(key, same ? before : object);
      }
      reported = now;
    },
  };
}

function keyOf(ref: ObjectRef): string {
  return ref.namespace === "" ? `${ref.kind} ${ref.name}` : `${ref.kind} ${ref.namespace}/${ref.name}`;
}
