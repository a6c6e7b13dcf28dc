import type { ClusterObject, Kind, ObjectRef } from "./cluster_object.ts";

/**
 * What every source says, and all it says. Calls are synchronous and cheap; a source that has much to say at once says
 * it within one turn of the event loop, so that it becomes one change.
 */
export interface SourceSink {
  /** The object exists and looks like this. */
  set(object: ClusterObject): void;
  /** The object is gone. */
  delete(ref: ObjectRef): void;
  /** Everything of that kind that exists has been set; said again after every reset. */
  synced(kind: Kind): void;
  /** Everything of that kind is about to be set anew; what is not set again until `synced` is gone. */
  reset(kind: Kind): void;
  /**
   * Something in what was read cannot be used; the rest is. `where` names it so that a person finds it:
   * `Service default/web`, or `services.yaml:12`.
   */
  problem(where: string, message: string): void;
}

/** Where the cluster's state comes from. */
export interface Source {
  /** Talks to the sink until the signal; retries by itself what may come right, and throws only what never will. */
  run(sink: SourceSink, signal: AbortSignal): Promise<void>;
}
