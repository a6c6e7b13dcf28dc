import type { ClusterObject } from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import { packObjects } from "./payload.ts";
import type { StateOrigin } from "./slot.ts";
import type { StateFile } from "./state_file.ts";

/** Options of `createKeeper`. */
export interface KeeperOptions {
  readonly file: StateFile;
  readonly origin: StateOrigin;
  /** The objects to keep. */
  readonly objects: () => Iterable<ClusterObject>;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Writes the state to the file after changes. */
export interface Keeper {
  /** From now on, the objects are the source's complete state. */
  start(): void;
  /** An object was added, changed or deleted. */
  changed(): void;
  /** Writes a change that waits, and ends. Resolves within 2 s. */
  stop(): Promise<void>;
}

/** The delay of a write after a change, for those that follow it. */
const SETTLE_MS = 1_000;
/** The least time between the starts of two writes. */
const LEAST_INTERVAL_MS = 10_000;
/** The least interval as a multiple of the time for which a write held the event loop: 1% of it. */
const COST_FACTOR = 100;
/** The longest wait for the last write: the disk may hang. */
const LAST_WRITE_MS = 2_000;

/** Creates a keeper, which writes nothing before its start. */
export function createKeeper({ file, origin, objects, onProblems, clock, logger }: KeeperOptions): Keeper {
  let isStarted = false;
  let isChanged = false;
  let writing: Promise<void> | undefined;
  let notBeforeMs = 0;
  let cancel: (() => void) | undefined;

  const write = async () => {
    const startMs = clock.monotonic();
    const atMs = clock.now();
    notBeforeMs = startMs + LEAST_INTERVAL_MS;
    isChanged = false;
    try {
      const { payload, busyMs } = await packObjects(objects(), clock);
      notBeforeMs = startMs + Math.max(LEAST_INTERVAL_MS, busyMs * COST_FACTOR);
      await file.write(origin, { payload, atMs });
      onProblems(SCOPE, []);
      logger.debug("kept the state", { file: file.path, bytes: payload.length, busyMs: Math.round(busyMs) });
    } catch (error) {
      isChanged = true;
      onProblems(SCOPE, [{ code: "state-not-kept", subject: file.path, detail: errorText(error) }]);
    }
  };

  const writeNow = () => {
    cancel = undefined;
    writing = write().finally(() => {
      writing = undefined;
      schedule();
    });
  };

  const schedule = () => {
    if (!isStarted || !isChanged || cancel !== undefined || writing !== undefined) return;
    cancel = clock.schedule(Math.max(SETTLE_MS, notBeforeMs - clock.monotonic()), writeNow);
  };

  return {
    start() {
      isStarted = isChanged = true;
      schedule();
    },
    changed() {
      isChanged = true;
      schedule();
    },
    async stop() {
      cancel?.();
      const isLeft = isStarted;
      isStarted = false;
      const finish = async () => {
        await writing;
        if (isLeft && isChanged) await write();
      };
      const late = Promise.withResolvers<void>();
      const cancelLate = clock.schedule(LAST_WRITE_MS, late.resolve);
      await Promise.race([finish(), late.promise]);
      cancelLate();
    },
  };
}

/** The scope of the problem of a file that cannot be written. */
const SCOPE = "state file";
