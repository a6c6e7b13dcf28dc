import type { ReportProblems } from "../problems/mod.ts";
import type { ClusterObject, Kind, ObjectRef } from "./cluster_object.ts";

/**
 * Receives the cluster's state from a source. Calls are synchronous and cheap; a source reports a batch within one turn of
 * the event loop, so that it becomes one change.
 */
export interface SourceSink {
  /** The object was added or changed. */
  set(object: ClusterObject): void;
  /** The object was deleted. */
  delete(ref: ObjectRef): void;
  /** Every existing object of the kind has been set; called again after every reset. */
  synced(kind: Kind): void;
  /** Every object of the kind is about to be set again; objects not set before the next `synced` are deleted. */
  reset(kind: Kind): void;
  /** Parts of the input cannot be used; the rest is. An object or a file is a scope, and replaces its earlier problems. */
  readonly problems: ReportProblems;
}

/** A server that a source may watch. */
export interface SourceServer {
  /** As on the command line: `10.0.0.1:12090`. */
  readonly address: string;
  /** Whether it is watched and has sent its whole state; true of one server at most. */
  readonly inUse: boolean;
}

/** A source of the cluster's state. */
export interface Source {
  /** The candidate servers, in the order in which the source tries them; undefined for other sources. */
  readonly servers?: () => readonly SourceServer[];
  /** Reports to the sink until the signal aborts. Retries what may recover; throws only on permanent failures. */
  run(sink: SourceSink, signal: AbortSignal): Promise<void>;
}

/** A request that creates or patches an object of the API. */
export interface ApiWrite {
  readonly verb: "create" | "patch";
  /** The resource as RBAC names it: `events`, `selfsubjectaccessreviews.authorization.k8s.io`. */
  readonly resource: string;
  /** The path after the server's URL: of the collection to `create`, of the object to `patch`. */
  readonly path: string;
  /** The object, or the patch, as plain data. */
  readonly object: unknown;
  /** The kind of patch: a merge patch (RFC 7386) by default, or a strategic merge patch, which merges lists by their keys. */
  readonly patch?: "strategic";
}
