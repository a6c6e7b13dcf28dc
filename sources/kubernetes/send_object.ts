import type { ApiClient } from "./http.ts";
import { parseObject } from "./read_object.ts";

/** A request that creates or patches one object. */
export interface ObjectRequest {
  /** As RBAC names it. */
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

const PATCH_TYPES = {
  "": "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
} as const;

const READ_DEADLINE_MS = 10_000;

/** Creates or patches an object and returns the API server's version of it. Throws an ApiError, or the signal's reason. */
export async function sendObject(api: ApiClient, request: ObjectRequest, signal: AbortSignal): Promise<unknown> {
  const { verb, resource, path, object, patch = "" } = request;
  const decoder = new TextDecoder();
  let text = "";
  const body = verb === "create"
    ? { method: "POST", contentType: "application/json", text: JSON.stringify(object) } as const
    : { method: "PATCH", contentType: PATCH_TYPES[patch], text: JSON.stringify(object) } as const;
  await api.send({ verb, resource, path, body, readDeadlineMs: READ_DEADLINE_MS }, (chunk) => {
    text += decoder.decode(chunk, { stream: true });
  }, signal);
  return parseObject(text, { verb, resource, server: api.server });
}
