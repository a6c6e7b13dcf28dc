import type { Kind, ObjectRef } from "../objects/mod.ts";
import { serviceKey } from "./service_key.ts";

/**
 * Finds what is gone when a source sets everything of a kind anew (`SourceSink.reset`): what was there and is not set again
 * until it is synced.
 */
export interface Confirmation {
  /** Everything of that kind is about to be set anew; these are what there is. */
  start(kind: Kind, known: Iterable<ObjectRef>): void;
  /** The object was set again, or deleted. */
  confirm(ref: ObjectRef): void;
  /** What has not been confirmed; empty where nothing was started. */
  finish(kind: Kind): readonly ObjectRef[];
}

/** Starts with no kind being set anew. */
export function createConfirmation(): Confirmation {
  const open = new Map<Kind, Map<string, ObjectRef>>();
  return {
    start(kind, known) {
      open.set(kind, new Map(Array.from(known, (ref) => [serviceKey(ref.namespace, ref.name), ref])));
    },
    confirm({ kind, namespace, name }) {
      open.get(kind)?.delete(serviceKey(namespace, name));
    },
    finish(kind) {
      const left = [...open.get(kind)?.values() ?? []];
      open.delete(kind);
      return left;
    },
  };
}
