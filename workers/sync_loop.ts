/** The sync loop of one family: sets up, applies deltas, retries what failed, and compares with the kernel. */
import { type Backend, type SyncResult, UnsupportedHostError } from "../backends/contract/mod.ts";
import { completesState, type Family, type FamilyDelta, type SyncReport } from "../core/model/mod.ts";
import { type Backoff, type Clock, errorText, type Logger } from "../platform/mod.ts";
import { createDueTimer, type DueTimer } from "./due_timer.ts";
import { createProblemLog, type ProblemLog } from "./problem_log.ts";
import type { FromWorker } from "./protocol.ts";

/** Inputs of `startSyncLoop`. */
export interface SyncLoopOptions {
  readonly family: Family;
  readonly backend: Backend;
  /** The waits after a failed setup or sync. */
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Sends a message to the main isolate. */
  readonly emit: (message: FromWorker) => void;
}

/** One family's sync loop. It runs one step at a time; every answer goes through `emit`. */
export interface SyncLoop {
  /** Queues a delta; it replaces one that is still queued. */
  sync(delta: FamilyDelta): void;
  /** Makes the next comparison with the kernel due. */
  compare(): void;
  /** Queues a cleanup, after which no state is held. */
  cleanup(): void;
  /** Starts no further step; resolves when the running one has ended. The rules stay. */
  stop(): Promise<void>;
}

/** The number of consecutive setups that must find that this host cannot serve the family before that is reported. */
const REFUSALS_BELIEVED = 3;

/** The state that is applied in the kernel, or is about to be. */
interface Held {
  readonly revision: number;
  readonly syncPeriodMs: number;
  /**
   * Whether only the head of the state was received: until the rest arrives, the kernel may hold correct rules that are
   * unknown here.
   */
  readonly isHead: boolean;
}

/** The state of a sync loop. */
interface Loop extends SyncLoopOptions {
  /** Starts the next step, unless one is running. */
  readonly wake: () => void;
  readonly problems: ProblemLog;
  /** The setup or sync to retry. */
  readonly retry: DueTimer;
  /** The periodic comparison with the kernel. */
  readonly resync: DueTimer;
  /** The sync that the backend requested although nothing changed. */
  readonly followUp: DueTimer;
  isSetUp: boolean;
  held: Held | undefined;
  waiting: FamilyDelta | undefined;
  isCleanupRequested: boolean;
  /**
   * Whether a full sync (a full snapshot or a comparison) has not succeeded yet; the sync that makes up for it counts as
   * full.
   */
  isFullDue: boolean;
  /** Whether the next comparison is because of a known fault. */
  isFaultKnown: boolean;
  isFailing: boolean;
  retries: number;
  refusals: number;
  running: Promise<void> | undefined;
  isStopped: boolean;
}

/** Starts a sync loop; the setup of its backend comes first. */
export function startSyncLoop(options: SyncLoopOptions): SyncLoop {
  const { clock, logger } = options;
  const wake = () => startNextStep(loop);
  const loop: Loop = {
    ...options,
    wake,
    problems: createProblemLog(logger),
    retry: createDueTimer(clock, wake),
    resync: createDueTimer(clock, wake),
    followUp: createDueTimer(clock, wake),
    isSetUp: false,
    held: undefined,
    waiting: undefined,
    isCleanupRequested: false,
    isFullDue: false,
    isFaultKnown: false,
    isFailing: false,
    retries: 0,
    refusals: 0,
    running: undefined,
    isStopped: false,
  };
  run(loop, () => setUp(loop));
  return {
    sync(delta) {
      loop.waiting = delta;
      wake();
    },
    compare() {
      loop.isFaultKnown = true;
      loop.resync.schedule(0);
    },
    cleanup() {
      loop.isCleanupRequested = true;
      wake();
    },
    async stop() {
      loop.isStopped = true;
      await loop.running;
      for (const timer of [loop.retry, loop.resync, loop.followUp]) timer.clear();
    },
  };
}

function startNextStep(loop: Loop): void {
  if (loop.running || loop.isStopped) return;
  const step = nextStep(loop);
  if (step !== undefined) run(loop, step);
}

function run(loop: Loop, step: () => Promise<void>): void {
  loop.running = step().finally(() => {
    loop.running = undefined;
    loop.wake();
  });
}

function nextStep(loop: Loop): (() => Promise<void>) | undefined {
  const { backend, held, waiting } = loop;
  if (loop.isCleanupRequested) return () => cleanUp(loop);
  if (!loop.isSetUp) return loop.retry.isDue() ? () => setUp(loop) : undefined;
  if (waiting) {
    loop.waiting = undefined;
    return () => applyDelta(loop, waiting);
  }
  if (held === undefined || held.isHead) return undefined;
  const { revision } = held;
  if (loop.retry.isDue()) return () => retry(loop, revision);
  if (loop.isFailing) return undefined;
  if (loop.resync.isDue()) return () => compare(loop, revision);
  if (loop.followUp.isDue()) return () => attempt(loop, revision, false, () => backend.sync(nothingSince(revision)));
  return undefined;
}

async function setUp(loop: Loop): Promise<void> {
  loop.retry.clear();
  try {
    await loop.backend.setup();
  } catch (error) {
    if (loop.isStopped) return;
    const reason = errorText(error);
    loop.refusals = error instanceof UnsupportedHostError ? loop.refusals + 1 : 0;
    loop.problems.log([{ code: "setup-failed", servicePort: undefined, message: reason }], "setup", retryLater(loop));
    // A package manager may be replacing a missing tool, and a refusal may be due to a lack of memory.
    if (loop.refusals === 0 || loop.refusals >= REFUSALS_BELIEVED) {
      loop.emit({ type: "setup-failed", reason, unsupported: loop.refusals > 0 });
    }
    return;
  }
  loop.isSetUp = true;
  settle(loop);
  loop.emit({ type: "ready" });
}

function applyDelta(loop: Loop, delta: FamilyDelta): Promise<void> {
  const { held } = loop;
  const syncPeriodMs = delta.settings?.syncPeriodMs ?? held?.syncPeriodMs;
  if ((delta.base !== undefined && delta.base !== held?.revision) || syncPeriodMs === undefined) {
    loop.logger.warn("delta base revision mismatch; requesting a full snapshot", {
      base: delta.base,
      held: held?.revision,
    });
    loop.emit({ type: "reset" });
    return Promise.resolve();
  }
  loop.held = { revision: delta.revision, syncPeriodMs, isHead: delta.part === "head" };
  if (syncPeriodMs !== held?.syncPeriodMs) loop.resync.schedule(syncPeriodMs);
  return attempt(loop, delta.revision, completesState(delta), () => loop.backend.sync(delta));
}

/**
 * Every second retry compares with the kernel: a wrong realized state may have caused the failure (another program may
 * have removed chains), and the kernel may now accept a change that it refused before.
 */
function retry(loop: Loop, revision: number): Promise<void> {
  const { backend } = loop;
  if (++loop.retries % 2 === 0) return compare(loop, revision);
  return attempt(loop, revision, false, () => backend.sync(nothingSince(revision)));
}

function compare(loop: Loop, revision: number): Promise<void> {
  const cause = loop.isFaultKnown ? "fault" : "interval";
  loop.isFaultKnown = false;
  return attempt(loop, revision, true, () => loop.backend.resync(cause));
}

async function attempt(loop: Loop, revision: number, full: boolean, sync: () => Promise<SyncResult>): Promise<void> {
  loop.isFullDue ||= full;
  const isFull = loop.isFullDue;
  loop.retry.clear();
  loop.followUp.clear();
  const startedAtMs = loop.clock.monotonic();
  let ok = true;
  let result: SyncResult;
  try {
    result = await sync();
  } catch (error) {
    // A tool killed by the stop itself is not a failure.
    if (loop.isStopped) return;
    ok = false;
    result = { problems: [{ code: "sync-failed", servicePort: undefined, message: errorText(error) }], figures: {} };
  }
  const durationMs = loop.clock.monotonic() - startedAtMs;
  scheduleAfter(loop, ok, result);
  const { problems, figures } = result;
  if (ok) {
    const repaired = figures.drift_repaired ?? 0;
    if (repaired > 0) loop.logger.warn("repaired rules changed by another program", { changes: repaired });
    loop.logger.debug("synced", { revision, full: isFull, durationMs: Math.round(durationMs), ...figures });
  }
  const report: SyncReport = {
    ...{ family: loop.family, revision, ok, full: isFull, endedAtMs: loop.clock.now(), durationMs, problems, figures },
    ...(isUnfinished(result) ? { unfinished: true } : {}),
  };
  loop.emit({ type: "report", report });
}

/** Schedules what follows a sync: a retry, the next comparison, a sync that the backend requested. */
function scheduleAfter(loop: Loop, ok: boolean, { problems, againAfterMs }: SyncResult): void {
  loop.isFailing = !ok;
  if (ok && loop.isFullDue) {
    loop.isFullDue = false;
    if (loop.held) loop.resync.schedule(loop.held.syncPeriodMs);
  }
  if (problems.length > 0) loop.problems.log(problems, "sync", retryLater(loop));
  else settle(loop);
  if (againAfterMs !== undefined) loop.followUp.schedule(againAfterMs);
}

/** Whether the worker will sync again without a delta. */
function isUnfinished({ problems, againAfterMs, figures }: SyncResult): boolean {
  return problems.length > 0 || againAfterMs !== undefined || (figures.cleanup_failures ?? 0) > 0;
}

function settle(loop: Loop): void {
  loop.backoff.reset();
  loop.retries = 0;
  loop.problems.clear();
}

function retryLater(loop: Loop): number {
  const waitMs = loop.backoff.nextMs();
  loop.retry.schedule(waitMs);
  return waitMs;
}

async function cleanUp(loop: Loop): Promise<void> {
  loop.isCleanupRequested = false;
  loop.held = undefined;
  loop.isFailing = false;
  loop.isFullDue = false;
  if (loop.isSetUp) loop.retry.clear();
  loop.resync.clear();
  loop.followUp.clear();
  let problem: string | undefined;
  try {
    await loop.backend.cleanup();
  } catch (error) {
    problem = errorText(error);
  }
  loop.emit({ type: "cleaned", problem });
}

function nothingSince(revision: number): FamilyDelta {
  return { revision, base: revision, settings: undefined, set: [], deleted: [] };
}
