import { errorOfBrokenJson, errorOfGarbage, errorOfStatus, type RequestSubject, statusOf } from "./api_error.ts";
import type { ApiClient } from "./http.ts";
import { createItemScanner, type ListEnvelope } from "./json_items.ts";
import { acceptedTypes, type Resource } from "./resource.ts";

/** Options of `listResource`. */
export interface ListOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /**
   * The number of objects per page. By default client-go's if the server must read from its storage, and everything at once if
   * the state may be old: served from memory, a page costs the server as much as the entire list.
   */
  readonly pageSize: number | undefined;
  /** The maximum silence of the answer, in milliseconds. */
  readonly readDeadlineMs: number;
  /** Whether a state from the server's memory, perhaps a bit old, is enough. It costs the cluster least. */
  readonly mayBeOld: boolean;
}

/** client-go's page size. */
const PAGE_SIZE = 500;

/**
 * Lists a resource page by page and emits each object as it is read. Returns the resourceVersion to watch from. Throws an
 * ApiError, of kind `expired` if the server dropped the state that the pages are from.
 */
export async function listResource(
  options: ListOptions,
  onItem: (item: unknown) => void,
  signal: AbortSignal,
): Promise<string> {
  const { resource, api, pageSize, readDeadlineMs, mayBeOld } = options;
  const limit = pageSize ?? (mayBeOld ? undefined : PAGE_SIZE);
  const subject: RequestSubject = { verb: "list", resource: resource.name, since: resource.since, server: api.server };
  for (let continueAt = "";;) {
    const query = new URLSearchParams(resource.selectors);
    if (limit !== undefined) query.set("limit", String(limit));
    if (continueAt) query.set("continue", continueAt);
    else if (mayBeOld) query.set("resourceVersion", "0");
    const scanner = createItemScanner(onItem);
    const request = {
      ...subject,
      path: `${resource.path}?${query}`,
      readDeadlineMs,
      accept: acceptedTypes(resource, "list"),
    };
    let envelope: ListEnvelope;
    try {
      await api.send(request, (chunk) => scanner.push(chunk), signal);
      envelope = scanner.end();
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw errorOfBrokenJson(subject, error);
    }
    const status = statusOf(envelope);
    if (status) throw errorOfStatus(subject, status.code, status);
    const { resourceVersion, next } = positionOf(subject, envelope);
    if (!next) return resourceVersion;
    continueAt = next;
  }
}

function positionOf(subject: RequestSubject, envelope: ListEnvelope) {
  const metadata = envelope.metadata as { readonly resourceVersion?: unknown; readonly continue?: unknown } | undefined;
  const resourceVersion = metadata?.resourceVersion;
  if (typeof resourceVersion !== "string" || resourceVersion === "") {
    throw errorOfGarbage(subject, "JSON", JSON.stringify(envelope));
  }
  return { resourceVersion, next: typeof metadata?.continue === "string" ? metadata.continue : "" };
}
