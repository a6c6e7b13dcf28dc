import { ApiError, errorOfBrokenJson, errorOfStatus, type RequestSubject, statusOf, what } from "./api_error.ts";
import type { ApiClient, ApiRequest } from "./http.ts";
import { metaOf } from "./known_objects.ts";
import type { Patience } from "./patience.ts";
import type { Resource } from "./resource.ts";
import { isBefore } from "./resource_version.ts";
import { createWatchDecoder, type WatchEvent } from "./watch_stream.ts";

/** How to watch. */
export interface WatchOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /** The resourceVersion after which events are wanted. */
  readonly from: string;
  /** After how many seconds the server is to end the watch. */
  readonly timeoutSeconds: number;
  /** How long silence may last. */
  readonly patience: Patience;
}

/** Who is told of a watch's events. */
export interface WatchHandler {
  /** The server has begun to answer. */
  opened(): void;
  set(raw: unknown): void;
  delete(raw: unknown): void;
  /** All events up to this resourceVersion have been told. */
  reached(resourceVersion: string): void;
}

/**
 * Watches a resource until the server ends the watch. Throws an ApiError otherwise: `expired` where the server has no
 * events from that resourceVersion on, tells of versions before it, or has perhaps not come to it yet.
 */
export async function watchResource(options: WatchOptions, handler: WatchHandler, signal: AbortSignal): Promise<void> {
  const { resource, api, timeoutSeconds, patience } = options;
  const subject: RequestSubject = { verb: "watch", resource: resource.name, since: resource.since, server: api.server };
  let position = options.from;

  const onEvent = (event: WatchEvent) => {
    if (event.type === "ERROR") {
      const status = statusOf(event.object);
      throw errorOfStatus(subject, status?.code ?? 0, status);
    }
    patience.heard(event.type === "BOOKMARK");
    const { resourceVersion } = metaOf(event.object);
    if (isBefore(resourceVersion, position)) {
      throw new ApiError(
        "expired",
        `${
          what(subject)
        } went back from resourceVersion ${position} to ${resourceVersion}, as after a restore from a ` +
          "backup; everything is listed anew",
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
      path: `${resource.path}?${query}`,
      onHeaders: () => {
        isAnswered = true;
        patience.begin(timeoutSeconds);
        handler.opened();
      },
      get readDeadlineMs() {
        return patience.silenceMs();
      },
    };
    await api.send(request, (chunk) => decoder.push(chunk), signal);
  } catch (error) {
    if (error instanceof SyntaxError) throw errorOfBrokenJson(subject, error);
    if (isAnswered && error instanceof ApiError && error.kind === "timeout" && patience.wasUnheard()) {
      // kube-apiserver takes a watch from a version that is yet to come, as after a restore from a backup, and tells nothing
      // before that (https://github.com/kubernetes/kubernetes/issues/107457).
      throw new ApiError(
        "expired",
        `${
          what(subject)
        } told nothing since resourceVersion ${options.from}, not even the bookmarks that it used to, so ` +
          "perhaps that is a version that the server does not have; everything is listed anew",
        { cause: error },
      );
    }
    throw error;
  }
  if (decoder.unfinishedBytes() > 0) {
    throw new ApiError(
      "unreachable",
      `${what(subject)} broke off in the middle of an event; the watch goes on after the last whole one`,
    );
  }
}
