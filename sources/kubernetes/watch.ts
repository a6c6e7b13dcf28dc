import { ApiError } from "../../core/objects/mod.ts";
import { errorOfBrokenJson, errorOfStatus, type RequestSubject, statusOf, what } from "./api_error.ts";
import type { ApiClient, ApiRequest } from "./http.ts";
import { isBefore, metaOf } from "./known_objects.ts";
import { createObjectLimit } from "./object_limit.ts";
import { acceptedTypes, type Resource } from "./resource.ts";
import type { Clock } from "../../platform/mod.ts";

interface WatchOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /** The resourceVersion after which to watch. */
  readonly from: string;
  /** The requested duration of the watch. */
  readonly timeoutSeconds: number;
  readonly timeout: WatchTimeout;
}

/** Receives a watch's events. */
interface WatchHandler {
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
      const step = `from resourceVersion ${position} to ${resourceVersion}`;
      throw new ApiError("expired", `${what(subject)} went back ${step}, as after a restore from a backup`);
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
      const nothing = `nothing since resourceVersion ${options.from}, not even bookmarks`;
      const message = `${what(subject)} received ${nothing}; the server may not have this version`;
      throw new ApiError("expired", message, { cause: error });
    }
    throw error;
  }
  if (decoder.unfinishedBytes() > 0) {
    const message = `${what(subject)} broke off in the middle of an event; resuming after the last complete one`;
    throw new ApiError("unreachable", message);
  }
}

/** One event of a watch. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  /** The object's current or last state; with BOOKMARK an object with only a resourceVersion, with ERROR a Status. */
  readonly object: unknown;
}

interface WatchDecoder {
  /**
   * Decodes the next bytes and emits every event that ends in them before it returns, so that events that came together are
   * applied together. Throws a SyntaxError at a line that is not an event or is too long, after emitting the events before it.
   */
  push(chunk: Uint8Array): void;
  /** The bytes of an incomplete line; if there are any at the end of the stream, an event was lost. */
  unfinishedBytes(): number;
}

const NEWLINE = 0x0a;
const TYPES: ReadonlySet<string> = new Set<WatchEvent["type"]>(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

/** A decoder for a watch's body: one JSON object per line. */
export function createWatchDecoder(onEvent: (event: WatchEvent) => void): WatchDecoder {
  const text = new TextDecoder();
  const limit = createObjectLimit();
  let held = "";
  let heldBytes = 0;
  return {
    push(chunk) {
      let from = 0;
      for (;;) {
        // Millions of empty lines come in a compressed chunk of some kB.
        const blankFrom = from;
        while (heldBytes === 0 && chunk[from] === NEWLINE) from++;
        limit.add(from - blankFrom);
        const end = chunk.indexOf(NEWLINE, from);
        if (end === -1) break;
        limit.add(end + 1 - from);
        const line = held + text.decode(chunk.subarray(from, end));
        held = "";
        heldBytes = 0;
        from = end + 1;
        if (line.trim() === "") continue;
        onEvent(eventOfLine(line));
        limit.ended();
      }
      if (from === chunk.length) return;
      limit.add(chunk.length - from);
      // A chunk may end inside a character, which the decoder's stream mode handles.
      held += text.decode(chunk.subarray(from), { stream: true });
      heldBytes += chunk.length - from;
    },
    unfinishedBytes: () => heldBytes,
  };
}

function eventOfLine(line: string): WatchEvent {
  const event: unknown = JSON.parse(line);
  if (
    typeof event !== "object" || event === null || !("type" in event) || !("object" in event) ||
    typeof event.type !== "string" || !TYPES.has(event.type)
  ) {
    throw new SyntaxError(`not a watch event: ${line.slice(0, 120)}`);
  }
  return event as WatchEvent;
}

/**
 * Decides how long the watches of one resource may be silent. kube-apiserver sends bookmarks about every minute; if they stop
 * after having come before, the connection is dead even if the kernel considers it open.
 */
export interface WatchTimeout {
  /** The server started to answer a watch of this duration. */
  begin(timeoutSeconds: number): void;
  received(isBookmark: boolean): void;
  /** The maximum silence of the watch from now on, in milliseconds. */
  silenceMs(): number;
  /**
   * Called after the watch was silent for that long. Returns whether it received nothing at all although earlier watches had
   * bookmarks; then bookmarks are no longer expected until the next one.
   */
  missedBookmarks(): boolean;
}

const WATCH_GRACE_MS = 30_000;
/** The range of the timeout in intervals between bookmarks. */
const GAPS = { fewest: 1.5, most: 2.5 };
const SHORTEST_MS = 5_000;

/** A timeout before any bookmarks: a watch may be silent for its whole duration. */
export function createWatchTimeout({ clock, random, fixedMs }: {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not time out at the same moment. */
  readonly random: () => number;
  /** A fixed timeout in milliseconds. */
  readonly fixedMs: number | undefined;
}): WatchTimeout {
  let longestGapMs: number | undefined;
  let watch = { lengthMs: 0, gaps: GAPS.fewest, lastBookmarkMs: 0, nothingReceived: true };
  return {
    begin(timeoutSeconds) {
      const gaps = GAPS.fewest + (GAPS.most - GAPS.fewest) * random();
      const lengthMs = timeoutSeconds * 1000 + WATCH_GRACE_MS;
      watch = { lengthMs, gaps, lastBookmarkMs: clock.monotonic(), nothingReceived: true };
    },
    received(isBookmark) {
      watch.nothingReceived = false;
      if (!isBookmark) return;
      const nowMs = clock.monotonic();
      longestGapMs = Math.max(longestGapMs ?? 0, nowMs - watch.lastBookmarkMs);
      watch.lastBookmarkMs = nowMs;
    },
    silenceMs() {
      if (fixedMs !== undefined) return fixedMs;
      const { lengthMs, gaps } = watch;
      return longestGapMs === undefined ? lengthMs : Math.min(lengthMs, Math.max(SHORTEST_MS, longestGapMs * gaps));
    },
    missedBookmarks() {
      if (!watch.nothingReceived || longestGapMs === undefined) return false;
      longestGapMs = undefined;
      return true;
    },
  };
}
