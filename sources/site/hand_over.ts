import { type Kind, KINDS, type SourceSink } from "../../core/objects/mod.ts";

/** The sink of one of several sources that report the same objects. */
export interface SharedSink extends SourceSink {
  /** Whether another source has taken over, so that this one is no longer heard. */
  isReplaced(): boolean;
  /** The source has ended: it is no longer heard, and its problems are over. */
  end(): void;
}

/**
 * Lets several sources in turn feed one sink. A source takes over with its first object, and is heard until another one takes
 * over. The objects of the earlier one stay until the new one has reported all of their kind: only differences have an effect.
 * Each call returns the sink of a new source.
 */
export function createHandOver(sink: SourceSink): () => SharedSink {
  let owner: symbol | undefined;

  return () => {
    const self = Symbol();
    let state: "waiting" | "heard" | "ended" = "waiting";
    const untouched = new Set<Kind>(KINDS);
    const scopes = new Set<string>();

    const isReplaced = () => state === "ended" || state === "heard" && owner !== self;

    /** Whether the source is heard. Its first call for a kind starts a reset of that kind. */
    const enters = (kind: Kind): boolean => {
      if (isReplaced()) return false;
      owner = self;
      state = "heard";
      if (untouched.delete(kind)) sink.reset(kind);
      return true;
    };

    return {
      set(object) {
        if (enters(object.kind)) sink.set(object);
      },
      delete(ref) {
        if (enters(ref.kind)) sink.delete(ref);
      },
      reset(kind) {
        if (enters(kind)) sink.reset(kind);
      },
      synced(kind) {
        if (enters(kind)) sink.synced(kind);
      },
      problems(scope, problems, options) {
        if (state === "ended") return;
        scopes.add(scope);
        sink.problems(scope, problems, options);
      },
      isReplaced,
      end() {
        state = "ended";
        for (const scope of scopes) sink.problems(scope, []);
        scopes.clear();
      },
    };
  };
}
