import { ApiError, errorOfBrokenJson, errorOfStatus, type RequestSubject, statusOf, what } from "./api_error.ts";
import type { ApiClient, ApiRequest } from "./http.ts";
import { isBefore, metaOf } from "./known_objects.ts";
import type { WatchTimeout } from "./watch_timeout.ts";
import { acceptedTypes, type Resource } from "./resource.ts";
import { createWatchDecoder, type WatchEvent } from "./watch_stream.ts";

/** Options of `watchResource`. */
export interface WatchOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /** The resourceVersion after which to watch. */
  readonly from: string;
  /** The requested duration of the watch. */
  readonly timeoutSeconds: number;
  readonly timeout: WatchTimeout;
}

/** Receives a watch's events. */
export interface WatchHandler {
  /** The server started to answer. */
  opened(): void;
  set(raw: unknown): void;
  delete(raw: unknown): void;
  /** All events up to this resourceVersion were delivered. */
  reached(resourceVersion: string): void;
}

/**
 * Watches a resource until the server ends the watch. Throws an ApiError otherwise: `expired` if the server no longer has the
 * events since that resourceVersion, sends older versions, or may not have reached it yet.
 */
export async function watchResource(options: WatchOptions, handler: WatchHandler, signal: AbortSignal): Promise<void> {
  const { resource, api, timeoutSeconds, timeout } = options;
  const subject: RequestSubject = { verb: "watch", resource: resource.name, since: resource.since, server: api.server };
  let position = options.from;

  const onEvent = (event: WatchEvent) => {
    if (event.type === "ERROR") {
      const status = statusOf(event.object);
      throw errorOfStatus(subject, status?.code ?? 0, status);
    }
    timeout.received(event.type === "BOOKMARK");
    const { resourceVersion } = metaOf(event.object);
    if (isBefore(resourceVersion, position)) {
      throw new ApiError(
        "expired",
        `${
          what(subject)
        } went back from resourceVersion ${position} to ${resourceVersion}, as after a restore from a ` +
          "backup; relisting",
      );
    }
    if (event.type === "DELETED") handler.delete(event.object);
    else if (event.type !== "BOOKMARK") handler.set(event.object);
    if (resourceVersion === "") return;
    position = resourceVersion;
    handler.reached(position);
  };

  const query = new URLSearchParams({
    ...resource.selectors,
    watch: "true",
    allowWatchBookmarks: "true",
    resourceVersion: position,
    timeoutSeconds: String(timeoutSeconds),
  });
  const decoder = createWatchDecoder(onEvent);
  let isAnswered = false;
  try {
    const request: ApiRequest = {
      ...subject,
      accept: acceptedTypes(resource, "watch"),
      path: `${resource.path}?${query}`,
      onHeaders: () => {
        isAnswered = true;
        timeout.begin(timeoutSeconds);
        handler.opened();
      },
      get readDeadlineMs() {
        return timeout.silenceMs();
      },
    };
    await api.send(request, (chunk) => decoder.push(chunk), signal);
  } catch (error) {
    if (error instanceof SyntaxError) throw errorOfBrokenJson(subject, error);
    if (isAnswered && error instanceof ApiError && error.kind === "timeout" && timeout.missedBookmarks()) {
      // kube-apiserver accepts a watch from a future version, as after a restore from a backup, and sends nothing until then
      // (https://github.com/kubernetes/kubernetes/issues/107457).
      throw new ApiError(
        "expired",
        `${
          what(subject)
        } received nothing since resourceVersion ${options.from}, not even bookmarks; the server may not have ` +
          "this version; relisting",
        { cause: error },
      );
    }
    throw error;
  }
  if (decoder.unfinishedBytes() > 0) {
    throw new ApiError(
      "unreachable",
      `${what(subject)} broke off in the middle of an event; resuming after the last complete one`,
    );
  }
}
