import type { LabelledObject } from "../objects/mod.ts";
import { sameData } from "../../platform/mod.ts";
import { createChangingMap } from "./changing_map.ts";
import { serviceKey } from "./service_key.ts";

/** The labels of an object, by key. */
export type Labels = Readonly<Record<string, string>>;

/** Tracks the labels that weights refer to. */
export interface LabelTracker {
  update(object: LabelledObject): void;
  delete(kind: LabelledObject["kind"], namespace: string, name: string): void;
  /** The labels of a Node; undefined if none of them is tracked. */
  ofNode(name: string): Labels | undefined;
  /** The labels of a pod; undefined if none of them is tracked. */
  ofPod(namespace: string, name: string): Labels | undefined;
  /** The objects of a kind, as `namespace/name`; the namespace of a Node is empty. */
  keys(kind: LabelledObject["kind"]): Iterable<string>;
  values(): Iterable<LabelledObject>;
  pending(): boolean;
  /** Whether labels changed since the last `take`. */
  take(): boolean;
}

/** A tracker without objects. */
export function createLabelTracker(): LabelTracker {
  const maps = {
    NodeLabels: createChangingMap<LabelledObject>(sameData),
    PodLabels: createChangingMap<LabelledObject>(sameData),
  };
  return {
    update(object) {
      maps[object.kind].put(serviceKey("namespace" in object ? object.namespace : "", object.name), object);
    },
    delete(kind, namespace, name) {
      maps[kind].put(serviceKey(namespace, name), undefined);
    },
    ofNode: (name) => maps.NodeLabels.get(serviceKey("", name))?.labels,
    ofPod: (namespace, name) => maps.PodLabels.get(serviceKey(namespace, name))?.labels,
    keys: (kind) => maps[kind].keys(),
    *values() {
      yield* maps.NodeLabels.values();
      yield* maps.PodLabels.values();
    },
    pending: () => maps.NodeLabels.pending() + maps.PodLabels.pending() > 0,
    take: () => maps.NodeLabels.take().size + maps.PodLabels.take().size > 0,
  };
}
