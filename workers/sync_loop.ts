/** The sync loop of one family: sets up, applies deltas, retries what failed, and compares with the kernel. */
import { type Backend, NOTHING_DONE, type SyncResult, UnsupportedHostError } from "../backends/contract/mod.ts";
import { completesState, type Family, type FamilyDelta, type SyncProblem, type SyncReport } from "../core/model/mod.ts";
import type { Problem } from "../core/problems/mod.ts";
import { type Backoff, type Clock, type ClockAndLogger, errorText, type Logger } from "../platform/mod.ts";
import type { FromWorker } from "./protocol.ts";

interface SyncLoopOptions extends ClockAndLogger {
  readonly family: Family;
  readonly backend: Backend;
  /** Writes further kernel settings, as `Backend.configure` does. */
  readonly writeHostSettings?: () => Promise<void>;
  /** Whether a setup ends only once the kernel settings are written. */
  readonly kernelFirst?: boolean;
  /** The delays after a failed setup or sync. */
  readonly backoff: Backoff;
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
  /** Starts no further step; resolves when the running one and the backend have ended. The rules stay. */
  stop(): Promise<void>;
}

/** After this number of setups in a row that found the host unable to serve the family, that is reported. */
const UNSUPPORTED_AFTER = 3;

/** The longest wait for a retry while changes are not in effect. */
const LONGEST_WAIT_OF_CHANGES_MS = 5_000;

/** After this time, a running step is a problem. At the start, the state of a large cluster takes longer. */
const OVERDUE_MS = { changes: 5_000, comparison: 5_000, check: 5_000, state: 30_000 };

/**
 * The interval of checks that the entry rules are in the kernel: they take a small share of the time, so a check that starts
 * tools is less frequent than one that asks a running nft. One that takes long may take a larger share.
 */
const ENTRY_CHECK = { shortestMs: 4_000, longestMs: 8_000, share: 0.002, largestShare: 0.02 };

/** The state that is applied in the kernel, or is about to be. */
interface Held {
  readonly revision: number;
  readonly syncPeriodMs: number;
  /** Whether only the first batch was received: until the rest arrives, the kernel may hold rules unknown here. */
  readonly isHead: boolean;
}

/** The scope of an attempt: the changes of a delta, the whole state, or the whole state compared with the kernel. */
type Scope = "changes" | "state" | "comparison";

type DueTimer = ReturnType<typeof createDueTimer>;

interface Loop extends SyncLoopOptions {
  /** Starts the next step, unless one is running. */
  readonly wake: () => void;
  readonly problems: ReturnType<typeof createProblemLog>;
  /** The setup or sync to retry. */
  readonly retry: DueTimer;
  /** The periodic comparison with the kernel. */
  readonly resync: DueTimer;
  /** The sync that the backend requested although nothing changed. */
  readonly followUp: DueTimer;
  readonly entryCheck: DueTimer;
  /** Whether the entry rules are expected in the kernel: unless the last check missed them, and nothing was repaired since. */
  hadEntryRules: boolean;
  isSetUp: boolean;
  held: Held | undefined;
  waiting: FamilyDelta | undefined;
  isCleanupRequested: boolean;
  /** Whether the next comparison is because of a known fault. */
  isFaultKnown: boolean;
  /** The last failure, until a comparison succeeds: a sync may succeed without a tool, which proves nothing. */
  failure: SyncProblem | undefined;
  /** Whether changes are not in effect: their sync failed, and none has succeeded since. */
  isBehind: boolean;
  retries: number;
  unsupportedSetups: number;
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
    entryCheck: createDueTimer(clock, wake),
    hadEntryRules: true,
    isSetUp: false,
    isCleanupRequested: false,
    isFaultKnown: false,
    isBehind: false,
    held: undefined,
    waiting: undefined,
    failure: undefined,
    running: undefined,
    retries: 0,
    unsupportedSetups: 0,
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
      await Promise.all([loop.running, options.backend.stop?.()]);
      for (const timer of [loop.retry, loop.resync, loop.followUp, loop.entryCheck]) timer.clear();
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
  const { held, waiting } = loop;
  if (loop.isCleanupRequested) return () => cleanUp(loop);
  if (!loop.isSetUp) return loop.retry.isDue() ? () => setUp(loop) : undefined;
  if (waiting) {
    loop.waiting = undefined;
    return () => applyDelta(loop, waiting);
  }
  if (held === undefined || held.isHead) return undefined;
  const { revision } = held;
  if (loop.retry.isDue()) return () => retry(loop, revision);
  if (loop.failure) return undefined;
  if (loop.resync.isDue()) return () => compare(loop, revision);
  if (loop.followUp.isDue()) return () => syncNothing(loop, revision);
  if (loop.entryCheck.isDue()) return () => checkEntryRules(loop);
  return undefined;
}

async function setUp(loop: Loop): Promise<void> {
  try {
    await loop.backend.setup();
    // A sysctl that hangs must not delay the first sync.
    const written = Promise.all([loop.writeHostSettings?.(), loop.backend.configure?.()]);
    if (loop.kernelFirst) await written;
  } catch (error) {
    if (loop.isStopped) return;
    const reason = errorText(error);
    loop.unsupportedSetups = error instanceof UnsupportedHostError ? loop.unsupportedSetups + 1 : 0;
    loop.problems.log([{ code: "setup-failed", servicePort: undefined, message: reason }], "setup", retryLater(loop));
    // A package manager may be replacing a missing tool, and a refusal may be due to a lack of memory.
    if (loop.unsupportedSetups === 0 || loop.unsupportedSetups >= UNSUPPORTED_AFTER) {
      loop.emit({ type: "setup-failed", reason, unsupported: loop.unsupportedSetups > 0 });
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
    const revisions = { base: delta.base, held: held?.revision };
    loop.logger.warn("delta base revision mismatch; requesting a full snapshot", revisions);
    loop.emit({ type: "reset" });
    return Promise.resolve();
  }
  loop.held = { revision: delta.revision, syncPeriodMs, isHead: delta.part === "head" };
  if (syncPeriodMs !== held?.syncPeriodMs) loop.resync.schedule(syncPeriodMs);
  return attempt(loop, delta.revision, completesState(delta) ? "state" : "changes", () => loop.backend.sync(delta));
}

/** Compares with the kernel after a failure; for problems of service ports, every second retry does. */
function retry(loop: Loop, revision: number): Promise<void> {
  return loop.failure || ++loop.retries % 2 === 0 ? compare(loop, revision) : syncNothing(loop, revision);
}

function syncNothing(loop: Loop, revision: number): Promise<void> {
  const nothing: FamilyDelta = { revision, base: revision, settings: undefined, set: [], deleted: [] };
  return attempt(loop, revision, "changes", () => loop.backend.sync(nothing));
}

function compare(loop: Loop, revision: number): Promise<void> {
  const cause = loop.isFaultKnown || loop.failure ? "fault" : "interval";
  loop.isFaultKnown = false;
  return attempt(loop, revision, "comparison", () => loop.backend.resync(cause));
}

async function attempt(loop: Loop, revision: number, scope: Scope, sync: () => Promise<SyncResult>): Promise<void> {
  // Changes must not delay the comparison that a failure awaits.
  if (!loop.failure || scope === "comparison") loop.retry.clear();
  loop.followUp.clear();
  const startedAtMs = loop.clock.monotonic();
  let done: SyncResult = NOTHING_DONE;
  try {
    done = await reportingDelay(loop, scope, sync);
    loop.isBehind = false;
    if (scope === "comparison") loop.failure = undefined;
  } catch (error) {
    // A tool killed by the stop itself is not a failure.
    if (loop.isStopped) return;
    loop.failure = { code: "sync-failed", servicePort: undefined, message: errorText(error) };
    loop.isBehind ||= scope !== "comparison";
  }
  const durationMs = loop.clock.monotonic() - startedAtMs;
  const ok = loop.failure === undefined, full = scope !== "changes";
  const result: SyncResult = loop.failure ? { ...done, problems: [loop.failure, ...done.problems] } : done;
  scheduleAfter(loop, full, result);
  const { problems, counts } = result;
  const repaired = counts.drift_repaired ?? 0;
  if (repaired > 0) {
    loop.hadEntryRules = true;
    const text = "repaired rules that another program changed, or that a tool did not write";
    loop.logger.warn(text, { changes: repaired });
  }
  if (ok) loop.logger.debug("synced", { revision, full, durationMs: Math.round(durationMs), ...counts });
  const report: SyncReport = {
    ...{ family: loop.family, revision, ok, full, endedAtMs: loop.clock.now(), durationMs, problems, counts },
    ...(isUnfinished(result) ? { unfinished: true } : {}),
  };
  loop.emit({ type: "report", report });
}

/** Runs a step, and reports it while it takes too long: its tool or the kernel may hang. */
async function reportingDelay<T>(loop: Loop, step: Scope | "check", work: () => Promise<T>): Promise<T> {
  const report = (problems: readonly Problem[]) => loop.emit({ type: "problems", scope: "overdue", problems });
  const what = step === "comparison"
    ? "a comparison with the kernel has been running"
    : step === "check"
    ? "a check of the entry rules has been running"
    : "changes have been waiting";
  const detail = `${what} for more than ${OVERDUE_MS[step] / 1000} s`;
  let isReported = false;
  const cancel = loop.clock.schedule(OVERDUE_MS[step], () => {
    // The cause of a retry that takes long is known.
    if (loop.failure || loop.isStopped) return;
    isReported = true;
    report([{ code: "changes-overdue", subject: loop.family, detail }]);
  });
  try {
    return await work();
  } finally {
    cancel();
    if (isReported) report([]);
  }
}

/**
 * Checks that the entry rules are in the kernel. If they were and are not, another program has removed them, and the next
 * comparison is due; so it is if the check fails, because only a comparison's failure is reported and retried.
 */
async function checkEntryRules(loop: Loop): Promise<void> {
  loop.entryCheck.clear();
  const startedAtMs = loop.clock.monotonic();
  const check = async () => await loop.backend.hasEntryRules?.();
  const isThere = await reportingDelay(loop, "check", check).catch(() => undefined);
  if (isThere === undefined || (!isThere && loop.hadEntryRules)) {
    loop.isFaultKnown = true;
    loop.resync.schedule(0);
  }
  loop.hadEntryRules = isThere ?? loop.hadEntryRules;
  scheduleEntryCheck(loop, loop.clock.monotonic() - startedAtMs);
}

function scheduleEntryCheck(loop: Loop, tookMs: number): void {
  if (!loop.backend.hasEntryRules) return;
  const { longestMs, share, largestShare } = ENTRY_CHECK,
    { entryCheckMs: shortestMs = ENTRY_CHECK.shortestMs } = loop.backend;
  const delayMs = Math.min(Math.max(shortestMs, tookMs / share), longestMs);
  loop.entryCheck.schedule(Math.max(delayMs, tookMs / largestShare));
}

/** Schedules what follows a sync: a retry, the next comparison, a sync that the backend requested. */
function scheduleAfter(loop: Loop, full: boolean, { problems, againAfterMs }: SyncResult): void {
  if (full && loop.held) loop.resync.schedule(loop.held.syncPeriodMs);
  if (!loop.entryCheck.isRunning()) scheduleEntryCheck(loop, 0);
  if (problems.length === 0) settle(loop);
  else if (!loop.retry.isRunning()) loop.problems.log(problems, "sync", retryLater(loop));
  else if (loop.isBehind) loop.retry.hasten(LONGEST_WAIT_OF_CHANGES_MS);
  if (againAfterMs !== undefined) loop.followUp.schedule(againAfterMs);
}

/** Whether the worker will sync again without a delta. */
function isUnfinished({ problems, againAfterMs, counts }: SyncResult): boolean {
  return problems.length > 0 || againAfterMs !== undefined || (counts.cleanup_failures ?? 0) > 0;
}

function settle(loop: Loop): void {
  loop.backoff.reset();
  loop.retries = 0;
  loop.problems.clear();
}

function retryLater(loop: Loop): number {
  const backoffMs = loop.backoff.nextMs();
  const waitMs = loop.isBehind ? Math.min(backoffMs, LONGEST_WAIT_OF_CHANGES_MS) : backoffMs;
  loop.retry.schedule(waitMs);
  return waitMs;
}

async function cleanUp(loop: Loop): Promise<void> {
  loop.isCleanupRequested = false;
  loop.held = undefined;
  loop.failure = undefined;
  if (loop.isSetUp) loop.retry.clear();
  for (const timer of [loop.resync, loop.followUp, loop.entryCheck]) timer.clear();
  let problem: string | undefined;
  try {
    await loop.backend.cleanup();
  } catch (error) {
    problem = errorText(error);
  }
  loop.emit({ type: "cleaned", problem });
}

/** A timer that stays due until it is cleared. */
function createDueTimer(clock: Clock, onDue: () => void) {
  let isDue = false;
  let dueAtMs = 0;
  let cancel: (() => void) | undefined;
  const clear = () => {
    isDue = false;
    cancel?.();
    cancel = undefined;
  };
  const schedule = (delayMs: number) => {
    clear();
    dueAtMs = clock.monotonic() + delayMs;
    cancel = clock.schedule(delayMs, () => {
      isDue = true;
      onDue();
    });
  };
  return {
    isDue: () => isDue,
    /** Whether it was started and not cleared since. */
    isRunning: () => cancel !== undefined,
    schedule,
    /** Starts it again with this delay if that lets it expire sooner. */
    hasten(delayMs: number): void {
      if (clock.monotonic() + delayMs < dueAtMs) schedule(delayMs);
    },
    clear,
  };
}

/** Logs the problems of setups and syncs: a problem that persists is logged once, not with every retry. */
function createProblemLog(logger: Logger) {
  let known: ReadonlySet<string> = new Set();
  return {
    /** Logs the problems that the last call did not include. */
    log(problems: readonly SyncProblem[], phase: "setup" | "sync", retryInMs: number): void {
      const current = new Set<string>();
      for (const { code, servicePort, message } of problems) {
        const key = `${code}|${servicePort ?? ""}|${message}`;
        current.add(key);
        if (known.has(key)) continue;
        const what = servicePort === undefined ? `${phase} failed` : "service port not programmed";
        const inSeconds = Math.round(retryInMs / 100) / 10;
        logger.error(`${what}, retrying`, { code, servicePort, error: message, inSeconds });
      }
      known = current;
    },
    /** Clears the problems, and logs that they are resolved if there were any. */
    clear(): void {
      if (known.size > 0) {
        logger.info("earlier problems are resolved");
        logger.solved();
      }
      known = new Set();
    },
  };
}
