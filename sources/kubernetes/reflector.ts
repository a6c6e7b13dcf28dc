import { type Backoff, type Clock, type Logger, sleep } from "../../platform/mod.ts";
import type { SourceSink } from "../../core/objects/mod.ts";
import { ApiError } from "./api_error.ts";
import type { ApiClient } from "./http.ts";
import type { KnownObjects } from "./known_objects.ts";
import { listResource } from "./list.ts";
import { createPatience } from "./patience.ts";
import type { Recovery } from "./recovery.ts";
import type { Resource } from "./resource.ts";
import { isBefore } from "./resource_version.ts";
import { watchResource } from "./watch.ts";

/** What a reflector is made of. */
export interface ReflectorOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /** What the sink has been told so far. */
  readonly known: KnownObjects;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long to wait after failures in a row. */
  readonly backoff: Backoff;
  /** The waits that it shares with the other reflectors of this server. */
  readonly recovery: Recovery;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  /** How many objects one page of a list holds. */
  readonly pageSize: number | undefined;
  /**
   * How long silence may last in a list or watch, in milliseconds; without it, a list's is 30 s, and a watch's what the
   * server's bookmarks tell (see Patience), without any the time after which it was to end, and half a minute more.
   */
  readonly readDeadlineMs: number | undefined;
}

/** client-go asks for the end of a watch after a random time in this range, so that servers get evenly loaded. */
const WATCH_SECONDS = { shortest: 300, longest: 600 };
const LIST_READ_DEADLINE_MS = 30_000;
/** How often it is looked whether the server has come to give something that can be done without. */
const OPTIONAL_RETRY_MS = 600_000;
/** A watch that ended sooner was no success, as with client-go: the next one waits. */
const SHORT_WATCH_MS = 1_000;
/** The longest wait that a server's Retry-After is granted, in milliseconds. */
const LONGEST_RETRY_AFTER_MS = 300_000;

/**
 * Keeps a sink told of one resource: lists it, watches it from there on, resumes after every interruption from the
 * last resourceVersion, and lists anew where the server no longer has that version. Runs until the signal, and then
 * rejects with its reason.
 */
export async function runReflector(options: ReflectorOptions, sink: SourceSink, signal: AbortSignal): Promise<void> {
  const { api, known, clock, logger, backoff, recovery, random } = options;
  const patience = createPatience({ clock, random, fixedMs: options.readDeadlineMs });
  let resource = withSparingSelectors(options.resource);
  let position: string | undefined;
  let lastPosition = "";
  let listedBefore = false;
  // Why something that can be done without could not be had at the last try.
  let doneWithout: ApiError["kind"] | undefined;
  // After a watch that worked, the next request is sent at once; whatever then goes wrong in a row waits.
  let mayHurry = true;

  /** The server does not have it, or not for this user; nothing waits for it. */
  const doWithout = async ({ kind, message }: ApiError) => {
    if (kind !== doneWithout) {
      const fields = { kind: resource.kind, waitMs: OPTIONAL_RETRY_MS };
      const text = `${message}; until then, ${resource.without}`;
      if (kind === "not-found") logger.info(text, fields);
      else logger.warn(text, fields);
    }
    if (doneWithout === undefined && !listedBefore) sink.synced(resource.kind);
    doneWithout = kind;
    await sleep(clock, OPTIONAL_RETRY_MS, signal);
    signal.throwIfAborted();
  };
  const pause = async (error: ApiError | undefined) => {
    const hurries = mayHurry && (error === undefined || error.kind === "expired");
    mayHurry = false;
    const ownWaitMs = hurries ? 0 : backoff.nextMs();
    // The server can lengthen the wait, never shorten it.
    const askedMs = Math.min(LONGEST_RETRY_AFTER_MS, error?.retryAfterMs ?? 0);
    const waitMs = Math.max(ownWaitMs, askedMs);
    if (error) {
      const fields = { kind: resource.kind, retryWithinMs: Math.round(waitMs) };
      if (error.kind === "expired") logger.info(error.message, fields);
      else logger.warn(error.message, fields);
    }
    const isOutage = error !== undefined && askedMs <= 0 && error.kind !== "throttled";
    if (waitMs > 0) await (isOutage ? recovery.wait(waitMs, signal) : sleep(clock, waitMs, signal));
    signal.throwIfAborted();
  };
  const list = async () => {
    const endList = known.startList();
    const from = await listResource(
      {
        resource,
        api,
        pageSize: options.pageSize,
        readDeadlineMs: options.readDeadlineMs ?? LIST_READ_DEADLINE_MS,
        // After that, an old state could undo what is known by now.
        mayBeOld: !listedBefore,
      },
      (item) => known.set(item),
      signal,
    );
    endList();
    recovery.answered();
    if (!listedBefore) sink.synced(resource.kind);
    listedBefore = true;
    doneWithout = undefined;
    if (isBefore(from, lastPosition)) {
      logger.info(
        `${resource.name} went back from resourceVersion ${lastPosition} to ${from}: what was known of them is not compared`,
        { kind: resource.kind },
      );
      lastPosition = from;
      known.doubt();
      return undefined;
    }
    lastPosition = from;
    return from;
  };

  const watch = (from: string) => {
    const { shortest, longest } = WATCH_SECONDS;
    const timeoutSeconds = Math.round(shortest + (longest - shortest) * random());
    const handler = {
      opened: recovery.answered,
      set: known.set,
      delete: known.delete,
      reached: (resourceVersion: string) => {
        position = lastPosition = resourceVersion;
      },
    };
    return watchResource({ resource, api, from, timeoutSeconds, patience }, handler, signal);
  };

  for (;;) {
    const startedMs = clock.monotonic();
    const watching = position !== undefined;
    let failure: ApiError | undefined;
    try {
      if (position === undefined) {
        position = await list();
        continue;
      }
      await watch(position);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ApiError)) throw error;
      failure = error;
      // After a line that makes no sense, what it said can only be learned from a list.
      if (error.kind === "expired" || error.kind === "garbled") position = undefined;
    }
    if (failure?.kind === "rejected" && resource !== options.resource) {
      resource = options.resource;
      logger.info(`${failure.message} without the selectors that an older server does not know`, {
        kind: resource.kind,
        ...options.resource.sparingSelectors,
      });
      continue;
    }
    if (failure && resource.without !== undefined && (failure.kind === "not-found" || failure.kind === "forbidden")) {
      await doWithout(failure);
      continue;
    }
    if (watching && clock.monotonic() - startedMs >= SHORT_WATCH_MS) {
      mayHurry = true;
      backoff.reset();
    }
    await pause(failure);
  }
}

function withSparingSelectors(resource: Resource): Resource {
  const { selectors, sparingSelectors } = resource;
  return sparingSelectors === undefined ? resource : { ...resource, selectors: { ...selectors, ...sparingSelectors } };
}
