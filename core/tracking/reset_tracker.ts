import type { Kind, ObjectRef } from "../objects/mod.ts";
import { serviceKey } from "./service_key.ts";

/** Finds the objects that were not set again between a reset (`SourceSink.reset`) and the next `synced`: they were deleted. */
interface ResetTracker {
  /** Every object of the kind is about to be set again; `known` are the existing ones. */
  start(kind: Kind, known: Iterable<ObjectRef>): void;
  /** The object was set again, or deleted. */
  confirm(ref: ObjectRef): void;
  /** Whether the object was neither set again nor deleted since the start of the reset; false without one. */
  isOpen(ref: ObjectRef): boolean;
  /** Ends the reset and returns the objects not confirmed; empty if no reset was started. */
  finish(kind: Kind): readonly ObjectRef[];
}

/** A tracker without an open reset. */
export function createResetTracker(): ResetTracker {
  const open = new Map<Kind, Map<string, ObjectRef>>();
  return {
    start(kind, known) {
      open.set(kind, new Map(Array.from(known, (ref) => [serviceKey(ref.namespace, ref.name), ref])));
    },
    confirm: ({ kind, namespace, name }) => open.get(kind)?.delete(serviceKey(namespace, name)),
    isOpen: ({ kind, namespace, name }) => open.get(kind)?.has(serviceKey(namespace, name)) === true,
    finish(kind) {
      const left = [...open.get(kind)?.values() ?? []];
      open.delete(kind);
      return left;
    },
  };
}
