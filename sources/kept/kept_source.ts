import {
  type ClusterObject,
  type Kind,
  type ObjectRef,
  type PodWatch,
  refOf,
  type Source,
  type SourceSink,
} from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { createResetTracker, serviceKey } from "../../core/tracking/mod.ts";
import { abortedBy, type ClockAndLogger, errorText, sleep, waitAtMost } from "../../platform/mod.ts";
import { packObjects, unpackObjects } from "./payload.ts";
import { createPodFollower, type RevisedCounts } from "./pods.ts";
import type { StateFile, StateOrigin } from "./state_file.ts";

/** Options of `createKeptSource`. */
export interface KeptSourceOptions extends ClockAndLogger {
  readonly source: Source;
  readonly file: StateFile;
  readonly origin: StateOrigin;
  /**
   * The time that the source has to sync at the start before the cached state is served, unless it fails earlier. The default
   * is a second, or no time if the kernel is empty, because then nothing is served in the meantime.
   */
  readonly delayMs?: number;
  /** Whether the kernel had no rules of a service proxy at the start, as after a reboot; unknown by default. */
  readonly isKernelEmpty?: Promise<boolean>;
  /** Resolves when a request of the source has failed and will be retried; never by default. */
  readonly failed?: Promise<void>;
  readonly kinds: readonly Kind[];
  /** The objects that the sink has. */
  readonly objects: () => Iterable<ClusterObject>;
  /** This node's pods, for the addresses of cached endpoints until the source has synced; not watched by default. */
  readonly pods?: PodWatch;
  /**
   * Receives the time of the cached state that is served, in milliseconds since 1970, and how many of its endpoints were
   * revised, if the pods are known; undefined once the state is replaced.
   */
  readonly onServing: (atMs: number | undefined, revised?: RevisedCounts) => void;
}

/**
 * A source with a cached state. If `source` does not sync every kind in time, the objects in the file are served, and replaced
 * kind by kind as it syncs. From then on, its objects are written to the file.
 */
export function createKeptSource(options: KeptSourceOptions): Source {
  const { source, file, origin: { node }, onServing, clock, logger } = options;
  return {
    servers: source.servers,
    async run(sink, signal) {
      let servingMs: number | undefined;
      const keeper = createKeeper(options, sink.problems);
      const onSynced = () => {
        keeper.start();
        follower?.stop();
        options.pods?.end();
        if (servingMs === undefined) return;
        logger.info("the source has answered, and its state has replaced the kept one");
        onServing(undefined);
      };
      const standIn = createStandIn(options, sink, keeper.changed, onSynced);
      const watch = options.pods?.isEnded() ? undefined : options.pods;
      const follower = watch && createPodFollower({
        ...options,
        ...{ watch, node, onProblems: sink.problems },
        onChange(slices, counts) {
          standIn.revise(slices);
          onServing(servingMs, counts);
        },
      });
      const ended = new AbortController();
      const until = abortedBy(signal, ended.signal).signal;
      /** Serves the cached state if the source does not sync in time. Never rejects. */
      const serveKept = async () => {
        try {
          await waitForSource(options, until);
          if (standIn.isOver()) return;
          const { state, ignored } = await file.read(options.origin);
          for (const reason of ignored) logger.warn("ignored a kept state", { file: file.path, reason });
          if (state === undefined) {
            logger.info("the source has not answered, and there is no kept state to serve", { file: file.path });
            return;
          }
          const [kept] = await Promise.all([unpackObjects(state.payload, clock), follower?.heard()]);
          if (until.aborted || standIn.isOver()) return;
          const revised = follower?.start(kept);
          servingMs = state.atMs;
          standIn.serve(revised?.objects ?? kept);
          onServing(servingMs, revised?.counts);
          const of = new Date(servingMs).toISOString();
          const fields = { of, objects: kept.length, file: file.path };
          logger.warn("serving the kept state until the source has answered", fields);
        } catch (error) {
          if (!until.aborted) logger.warn("ignored a kept state", { file: file.path, reason: errorText(error) });
        }
      };
      serveKept();
      try {
        await source.run(standIn.sink, signal);
      } finally {
        ended.abort();
        follower?.stop();
        await keeper.stop();
      }
    },
  };
}

/** The default of `delayMs` for a kernel that has rules. */
const DELAY_MS = 1_000;

/** Resolves when it is time to serve the cached state. Rejects if the signal is aborted. */
async function waitForSource({ delayMs, isKernelEmpty, failed, clock }: KeptSourceOptions, signal: AbortSignal) {
  if (delayMs === 0) return;
  const ends = [sleep(clock, delayMs ?? DELAY_MS, signal)];
  if (failed !== undefined) ends.push(failed);
  if (delayMs === undefined && isKernelEmpty !== undefined) {
    const { promise, resolve } = Promise.withResolvers<void>();
    isKernelEmpty.then((isEmpty) => isEmpty && resolve());
    ends.push(promise);
  }
  await Promise.race(ends);
}

/** The delay of a write after a change, so that it includes following changes. */
const SETTLE_MS = 1_000;
/** The minimum interval between the starts of two writes. */
const LEAST_INTERVAL_MS = 10_000;
/** The minimum interval as a multiple of the time for which a write blocked the event loop, so that writes use at most 1%. */
const COST_FACTOR = 100;
/** The timeout of the last write: the disk may hang. */
const LAST_WRITE_MS = 2_000;

interface Keeper {
  /** From now on, the objects are the source's complete state. */
  start(): void;
  changed(): void;
  /** Writes a change that waits, and ends. Resolves within 2 s. */
  stop(): Promise<void>;
}

interface Keeping {
  isStarted: boolean;
  /** Whether there are changes since the last write. */
  isChanged: boolean;
  /** The earliest time of the next write, by the monotonic clock. */
  notBeforeMs: number;
  cancel?: (() => void) | undefined;
  writing?: Promise<void> | undefined;
}

/** Writes the state to the file after changes, once it is started. */
export function createKeeper(
  { file, origin, objects, clock, logger }: Pick<KeptSourceOptions, "file" | "origin" | "objects" | "clock" | "logger">,
  onProblems: ReportProblems,
): Keeper {
  const keeping: Keeping = { isStarted: false, isChanged: false, notBeforeMs: 0 };

  const write = async () => {
    const startMs = clock.monotonic();
    const atMs = clock.now();
    keeping.notBeforeMs = startMs + LEAST_INTERVAL_MS;
    keeping.isChanged = false;
    try {
      const { payload, busyMs } = await packObjects(objects(), clock);
      keeping.notBeforeMs = startMs + Math.max(LEAST_INTERVAL_MS, busyMs * COST_FACTOR);
      await file.write(origin, { payload, atMs });
      onProblems(SCOPE, []);
      logger.debug("kept the state", { file: file.path, bytes: payload.length, busyMs: Math.round(busyMs) });
    } catch (error) {
      keeping.isChanged = true;
      onProblems(SCOPE, [{ code: "state-not-kept", subject: file.path, detail: errorText(error) }]);
    }
  };

  const writeNow = () => {
    keeping.cancel = undefined;
    keeping.writing = write().finally(() => {
      keeping.writing = undefined;
      schedule();
    });
  };

  const schedule = () => {
    const { isStarted, isChanged, notBeforeMs, cancel, writing } = keeping;
    if (!isStarted || !isChanged || cancel !== undefined || writing !== undefined) return;
    keeping.cancel = clock.schedule(Math.max(SETTLE_MS, notBeforeMs - clock.monotonic()), writeNow);
  };

  return {
    start() {
      keeping.isStarted = keeping.isChanged = true;
      schedule();
    },
    changed() {
      keeping.isChanged = true;
      schedule();
    },
    async stop() {
      const { isStarted, cancel, writing } = keeping;
      cancel?.();
      keeping.isStarted = false;
      const finish = async () => {
        await writing;
        if (isStarted && keeping.isChanged) await write();
      };
      await waitAtMost(clock, LAST_WRITE_MS, finish());
    },
  };
}

const SCOPE = "state file";

/**
 * Serves cached objects until the source has sent its own. Calls `onChange` when the source has added, changed or deleted an
 * object, and `onSynced` once: the source has synced every kind.
 */
function createStandIn(
  { kinds, objects }: KeptSourceOptions,
  sink: SourceSink,
  onChange: () => void,
  onSynced: () => void,
) {
  const unsynced = new Set<Kind>(kinds);
  const unconfirmed = createResetTracker();

  const synced = (kind: Kind) => {
    for (const ref of unconfirmed.finish(kind)) sink.delete(ref);
    sink.synced(kind);
    if (unsynced.delete(kind) && unsynced.size === 0) onSynced();
  };

  const ofSource: SourceSink = {
    set(object) {
      unconfirmed.confirm(refOf(object));
      sink.set(object);
      onChange();
    },
    delete(ref) {
      unconfirmed.confirm(ref);
      sink.delete(ref);
      onChange();
    },
    reset: (kind) => sink.reset(kind),
    synced,
    problems: sink.problems,
  };
  return {
    /** Receives the source's objects, and passes them on. */
    sink: ofSource,
    /** Whether the source has synced every kind. */
    isOver: () => unsynced.size === 0,
    /**
     * Sets the cached objects of every kind that the source has not synced, except for objects that the source has set; these
     * kinds then count as synced. When the source syncs such a kind, objects that it has not set are deleted, so only the
     * difference has an effect.
     */
    serve(kept: readonly ClusterObject[]) {
      const existing = new Set(Array.from(objects(), (object) => keyOf(refOf(object))));
      const missing = kept.filter((object) => unsynced.has(object.kind) && !existing.has(keyOf(refOf(object))));
      for (const object of missing) sink.set(object);
      for (const kind of unsynced) {
        unconfirmed.start(kind, missing.filter((object) => object.kind === kind).map(refOf));
        sink.synced(kind);
      }
    },
    /** Updates served objects, unless the source has set or deleted them or has synced their kind. */
    revise(kept: readonly ClusterObject[]) {
      for (const object of kept) if (unconfirmed.isOpen(refOf(object))) sink.set(object);
    },
  };
}

function keyOf({ kind, namespace, name }: ObjectRef): string {
  return `${kind} ${serviceKey(namespace, name)}`;
}
