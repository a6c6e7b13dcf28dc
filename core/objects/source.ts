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

/** A change of one request stream of a source. Plain data. */
export type LinkEvent =
  /** A request was answered. */
  | { readonly type: "answered" }
  /** An event of the cluster arrived, or a message that there was none, such as a bookmark. */
  | { readonly type: "received" }
  /** A request failed, and is sent again within this time. */
  | { readonly type: "failed"; readonly error: string; readonly retryInMs: number }
  /** The stream is no longer used, whether it failed or not. */
  | { readonly type: "ended" };

/** Reports an event of a stream; `stream` names it within the source (`services`), and `server` the server it goes to. */
export type ReportLink = (stream: string, server: string, event: LinkEvent) => void;

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

/** The kind of a failed request, which determines the reaction. */
export type ApiErrorKind =
  | "credentials" // unreadable or unusable: reloaded at the next attempt
  | "certificate-expired" // the server's or the client's; or it is not valid yet
  | "certificate" // the server's certificate is not trusted, or the client's is refused
  | "unreachable" // no connection: refused, no route, reset
  | "dns"
  | "timeout" // no answer, or an answer that stalled
  | "unauthorized" // 401: credentials are reloaded
  | "forbidden" // 403
  | "not-found" // 404
  | "conflict" // 409: the object has changed, or exists already
  | "expired" // 410, or a resourceVersion that the server does not have: relist
  | "throttled" // 429: wait as long as the server requests
  | "unavailable" // 5xx
  | "rejected" // any other status
  | "garbled"; // not an answer of the Kubernetes API: HTML, truncated JSON

/** A failed request to the API server; the message names the request, the failure and the reaction. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The wait that the server requests, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly kind: ApiErrorKind,
    message: string,
    { retryAfterMs, ...options }: { readonly retryAfterMs?: number; readonly cause?: unknown } = {},
  ) {
    super(message, options);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The outcome of one HTTP request to the API server, for metrics. */
export interface ApiRequestOutcome {
  readonly method: "GET" | "POST" | "PATCH";
  /** `host:port` of the API server, as in its URL. */
  readonly host: string;
  /** The HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** The duration of the request in milliseconds; undefined for a watch, which is reported when its response begins. */
  readonly durationMs: number | undefined;
  /** The size of the request body. */
  readonly requestBytes: number;
  /** The size of the body of a successful response; undefined for a watch and for other responses. */
  readonly responseBytes: number | undefined;
}
