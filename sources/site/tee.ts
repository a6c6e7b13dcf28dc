import type { SourceSink } from "../../core/objects/mod.ts";

/** A sink that passes everything to both; problems go to the second one only. */
export function teeOf(first: SourceSink, second: SourceSink): SourceSink {
  return {
    set(object) {
      first.set(object);
      second.set(object);
    },
    delete(ref) {
      first.delete(ref);
      second.delete(ref);
    },
    reset(kind) {
      first.reset(kind);
      second.reset(kind);
    },
    synced(kind) {
      first.synced(kind);
      second.synced(kind);
    },
    problems: second.problems,
  };
}
