import { type Backoff, type ClockAndLogger, createBackoff, sleep } from "../../platform/mod.ts";
import { ApiError, type LinkEvent, type SourceSink } from "../../core/objects/mod.ts";
import type { Recovery, ServerFailures } from "./recovery.ts";
import type { ApiClient } from "./http.ts";
import { isBefore, type KnownObjects } from "./known_objects.ts";
import { listResource } from "./list.ts";
import { type Resource, streamOf } from "./resource.ts";
import { createWatchTimeout, watchResource, type WatchTimeout } from "./watch.ts";

interface ReflectorOptions extends ClockAndLogger {
  readonly resource: Resource;
  readonly api: ApiClient;
  readonly known: KnownObjects;
  readonly backoff: Backoff;
  /** Receives the state of this resource's requests. */
  readonly onLink: (event: LinkEvent) => void;
  /** The waits shared with the other reflectors of this server. */
  readonly recovery: Recovery;
  /** The failures of this server, shared with the other reflectors. */
  readonly failures: ServerFailures;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly pageSize: number | undefined;
  /**
   * The maximum silence of a list or watch, in milliseconds. By default 30 s for a list, and for a watch a time that follows
   * from the server's bookmarks (see WatchTimeout) or, without any, half a minute more than its requested duration.
   */
  readonly readDeadlineMs: number | undefined;
}

/** Like client-go, requests a random watch duration in this range, so that the load on servers stays even. */
const WATCH_SECONDS = { shortest: 300, longest: 600 };
const LIST_READ_DEADLINE_MS = 30_000;
/**
 * The waits while an optional resource is missing or forbidden, in milliseconds. The first are short, because an API server that
 * has just started forbids requests until it has read its roles.
 */
const OPTIONAL_RETRY = { firstMs: 2_000, longestMs: 600_000 };
/** As in client-go, a shorter watch is no success: the next one waits. */
const SHORT_WATCH_MS = 1_000;
/** The maximum delay that a server's Retry-After may request, in milliseconds. */
const LONGEST_RETRY_AFTER_MS = 300_000;

interface Progress {
  resource: Resource;
  /** The resourceVersion to watch from; undefined if a list is needed. */
  position: string | undefined;
  /** The last resourceVersion seen. */
  lastPosition: string;
  hasListed: boolean;
  /** The reason why an optional resource was not available at the last attempt. */
  unavailable: ApiError["kind"] | undefined;
  /** The waits until an optional resource is available. */
  readonly whileUnavailable: Backoff;
  /** Whether the next request may be sent without a wait: after a successful watch, once. */
  maySkipWait: boolean;
}

/**
 * Keeps a sink up to date on one resource: lists it, watches it from there, resumes after interruptions from the last
 * resourceVersion, and relists if the server no longer has that version. Runs until the signal aborts, and then rejects with
 * its reason.
 */
export async function runReflector(options: ReflectorOptions, sink: SourceSink, signal: AbortSignal): Promise<void> {
  const { clock, logger, backoff, random } = options;
  const timeout = createWatchTimeout({ clock, random, fixedMs: options.readDeadlineMs });
  const progress: Progress = {
    resource: withSparingSelectors(options.resource),
    position: undefined,
    lastPosition: "",
    hasListed: false,
    unavailable: undefined,
    whileUnavailable: createBackoff({ ...OPTIONAL_RETRY, random }),
    maySkipWait: true,
  };
  for (;;) {
    const startedMs = clock.monotonic();
    const isWatching = progress.position !== undefined;
    let failure: ApiError | undefined;
    try {
      if (progress.position === undefined) {
        progress.position = await list(options, progress, sink, signal);
        continue;
      }
      await watch(options, progress, progress.position, timeout, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ApiError)) throw error;
      failure = error;
      // A malformed event may hide a change that only a new list shows.
      if (error.kind === "expired" || error.kind === "garbled") progress.position = undefined;
    }
    const { resource } = progress;
    if (failure?.kind === "rejected" && resource !== options.resource) {
      progress.resource = options.resource;
      logger.info("retrying without the selectors that this API server does not support", {
        kind: resource.kind,
        error: failure.message,
        ...options.resource.sparingSelectors,
      });
      continue;
    }
    if (failure && resource.without !== undefined && (failure.kind === "not-found" || failure.kind === "forbidden")) {
      await waitForOptional(options, progress, failure, sink, signal);
      continue;
    }
    if (isWatching && clock.monotonic() - startedMs >= SHORT_WATCH_MS) {
      progress.maySkipWait = true;
      backoff.reset();
    }
    await waitForRetry(options, progress, failure, signal);
  }
}

/** Lists the resource. Returns the resourceVersion to watch from; undefined if another list is needed. */
async function list(
  options: ReflectorOptions,
  progress: Progress,
  sink: SourceSink,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { api, known, logger, pageSize, readDeadlineMs = LIST_READ_DEADLINE_MS } = options;
  const { resource, hasListed, lastPosition } = progress;
  const endList = known.startList();
  // After the first list, an old state could undo changes already reported.
  const listing = { resource, api, pageSize, readDeadlineMs, mayBeOld: !hasListed };
  const from = await listResource(listing, (item) => known.set(item), signal);
  endList();
  noteAvailable(options, progress);
  if (!hasListed) sink.synced(resource.kind);
  progress.hasListed = true;
  progress.lastPosition = from;
  if (!isBefore(from, lastPosition)) return from;
  logger.info("resourceVersion went back, relisting", { kind: resource.kind, before: lastPosition, now: from });
  known.invalidate();
  return undefined;
}

/** The server answered a request for the resource, which ends its failure. */
function noteAnswer({ recovery, failures, onLink, logger }: ReflectorOptions, resource: Resource): void {
  recovery.answered();
  onLink({ type: "answered" });
  failures.answered(streamOf(resource));
  logger.solved({ kind: resource.kind });
}

function noteAvailable(options: ReflectorOptions, progress: Progress): void {
  noteAnswer(options, progress.resource);
  progress.unavailable = undefined;
  progress.whileUnavailable.reset();
}

function watch(
  options: ReflectorOptions,
  progress: Progress,
  from: string,
  timeout: WatchTimeout,
  signal: AbortSignal,
): Promise<void> {
  const { api, known, random, onLink } = options;
  const { shortest, longest } = WATCH_SECONDS;
  const timeoutSeconds = Math.round(shortest + (longest - shortest) * random());
  const handler = {
    opened: () => noteAvailable(options, progress),
    set: known.set,
    delete: known.delete,
    reached: (resourceVersion: string) => {
      progress.position = progress.lastPosition = resourceVersion;
      onLink({ type: "received" });
    },
  };
  return watchResource({ resource: progress.resource, api, from, timeoutSeconds, timeout }, handler, signal);
}

/** Handles an optional resource that is missing or forbidden: it counts as synced until the next attempt. */
async function waitForOptional(
  options: ReflectorOptions,
  progress: Progress,
  { kind, message }: ApiError,
  sink: SourceSink,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  const { resource, unavailable, hasListed } = progress;
  const waitMs = progress.whileUnavailable.nextMs();
  noteAnswer(options, resource);
  if (kind !== unavailable) {
    const fields = { kind: resource.kind, error: message, effect: resource.without, retryInMs: Math.round(waitMs) };
    if (kind === "not-found") logger.info("optional resource not available", fields);
    else logger.warn("optional resource not available", fields);
  }
  if (unavailable === undefined && !hasListed) sink.synced(resource.kind);
  progress.unavailable = kind;
  await sleep(clock, waitMs, signal);
  signal.throwIfAborted();
}

/** Waits before the next request, after a failure or the end of a watch. */
async function waitForRetry(
  { clock, logger, backoff, recovery, failures, onLink }: ReflectorOptions,
  progress: Progress,
  error: ApiError | undefined,
  signal: AbortSignal,
): Promise<void> {
  const skipsWait = progress.maySkipWait && (error === undefined || error.kind === "expired");
  progress.maySkipWait = false;
  const ownWaitMs = skipsWait ? 0 : backoff.nextMs();
  // The server can lengthen the wait, never shorten it.
  const requestedMs = Math.min(LONGEST_RETRY_AFTER_MS, error?.retryAfterMs ?? 0);
  const waitMs = Math.max(ownWaitMs, requestedMs);
  if (error) {
    const fields = { kind: progress.resource.kind, error: error.message, retryWithinMs: Math.round(waitMs) };
    if (error.kind === "expired") logger.info("resourceVersion expired, relisting", fields);
    else logger.warn("request to the API server failed, retrying", fields);
  }
  if (error && error.kind !== "expired" && error.kind !== "throttled") {
    failures.failed(streamOf(progress.resource), error);
    onLink({ type: "failed", error: error.message, retryInMs: waitMs });
  }
  const isOutage = error !== undefined && requestedMs <= 0 && error.kind !== "throttled";
  if (waitMs > 0) await (isOutage ? recovery.wait(waitMs, signal) : sleep(clock, waitMs, signal));
  signal.throwIfAborted();
}

function withSparingSelectors(resource: Resource): Resource {
  const { selectors, sparingSelectors } = resource;
  return sparingSelectors === undefined ? resource : { ...resource, selectors: { ...selectors, ...sparingSelectors } };
}
