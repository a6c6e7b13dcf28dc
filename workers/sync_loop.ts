/** One family's state machine: sets up, applies deltas, tries again what failed, and compares with the kernel. */
import { type Backend, type SyncResult, UnsupportedHostError } from "../backends/contract/mod.ts";
import { completesState, type Family, type FamilyDelta, type SyncProblem, type SyncReport } from "../core/model/mod.ts";
import { type Backoff, type Clock, errorText, type Logger } from "../platform/mod.ts";
import type { FromWorker } from "./protocol.ts";

/** What a sync loop works with. */
export interface SyncLoopOptions {
  readonly family: Family;
  readonly backend: Backend;
  /** The waits after a setup or sync that failed. */
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Takes what is to be said to the main isolate. */
  readonly emit: (message: FromWorker) => void;
}

/** One family's sync loop. It never does two things at once; every answer comes through `emit`. */
export interface SyncLoop {
  /** To be applied as soon as what is running has ended; replaces one that still waits. */
  sync(delta: FamilyDelta): void;
  /** To be done as soon as what is running has ended; what was synced is then no longer held. */
  cleanup(): void;
  /** Starts nothing more; resolves when what is running has ended. The rules stay. */
  stop(): Promise<void>;
}

/** How many setups in a row must find that this host cannot serve the family before that is reported. */
const REFUSALS_BELIEVED = 3;

/** What is applied in the kernel, or is to be. */
interface Held {
  readonly revision: number;
  readonly syncPeriodMs: number;
  /** Whether the rest of the state is still to come: until then the kernel may hold what is right and not known. */
  readonly isHead: boolean;
}

/** Starts a sync loop, with the setup of its backend. */
export function startSyncLoop(options: SyncLoopOptions): SyncLoop {
  const { family, backend, backoff, clock, logger, emit } = options;

  let isSetUp = false;
  let held: Held | undefined;
  let waiting: FamilyDelta | undefined;
  let cleanupIsAsked = false;
  let resyncIsDue = false;
  let retryIsDue = false;
  let anotherIsDue = false;
  // Whether a whole state or a comparison has not worked out yet: the sync that mends it counts as a full one.
  let owesFull = false;
  let failing = false;
  let retries = 0;
  let refusals = 0;
  let complaints: ReadonlySet<string> = new Set();
  let running: Promise<void> | undefined;
  let stopped = false;
  let cancelRetry: (() => void) | undefined;
  let cancelResync: (() => void) | undefined;
  let cancelAnother: (() => void) | undefined;

  const wake = () => {
    if (running || stopped) return;
    const step = nextStep();
    if (step === undefined) return;
    running = step().finally(() => {
      running = undefined;
      wake();
    });
  };

  const nextStep = (): (() => Promise<void>) | undefined => {
    if (cleanupIsAsked) return cleanup;
    if (!isSetUp) return retryIsDue ? setup : undefined;
    if (waiting) {
      const delta = waiting;
      waiting = undefined;
      return () => applyDelta(delta);
    }
    if (held === undefined || held.isHead) return undefined;
    const { revision } = held;
    if (retryIsDue) return () => tryAgain(revision);
    if (resyncIsDue && !failing) return () => attempt(revision, true, () => backend.resync());
    if (anotherIsDue && !failing) return () => attempt(revision, false, () => backend.sync(nothingSince(revision)));
    return undefined;
  };

  const setup = async () => {
    retryIsDue = false;
    try {
      await backend.setup();
    } catch (error) {
      if (stopped) return;
      const reason = errorText(error);
      refusals = error instanceof UnsupportedHostError ? refusals + 1 : 0;
      complain([{ code: "setup-failed", servicePort: undefined, message: reason }], retryLater());
      // What is missing now may only be replaced by a package manager, or may be refused for a lack of memory.
      if (refusals === 0 || refusals >= REFUSALS_BELIEVED) {
        emit({ type: "setup-failed", reason, unsupported: refusals > 0 });
      }
      return;
    }
    isSetUp = true;
    settle();
    emit({ type: "ready" });
  };

  const applyDelta = (delta: FamilyDelta): Promise<void> => {
    const syncPeriodMs = delta.settings?.syncPeriodMs ?? held?.syncPeriodMs;
    if ((delta.base !== undefined && delta.base !== held?.revision) || syncPeriodMs === undefined) {
      logger.warn("a delta changes another state than the one held, asking for the whole state", {
        base: delta.base,
        held: held?.revision,
      });
      emit({ type: "reset" });
      return Promise.resolve();
    }
    const periodChanged = syncPeriodMs !== held?.syncPeriodMs;
    held = { revision: delta.revision, syncPeriodMs, isHead: delta.part === "head" };
    if (periodChanged) resyncLater();
    return attempt(delta.revision, completesState(delta), () => backend.sync(delta));
  };

  // What the backend believes of the kernel may itself be what makes it fail (somebody else took chains away), and what
  // the kernel refused once it may now take: every second try compares.
  const tryAgain = (revision: number): Promise<void> => {
    if (++retries % 2 === 0) return attempt(revision, true, () => backend.resync());
    return attempt(revision, false, () => backend.sync(nothingSince(revision)));
  };

  const attempt = async (revision: number, full: boolean, sync: () => Promise<SyncResult>): Promise<void> => {
    owesFull ||= full;
    const isFull = owesFull;
    clearRetry();
    clearAnother();
    const startedAtMs = clock.monotonic();
    let ok = true;
    let result: SyncResult;
    try {
      result = await sync();
    } catch (error) {
      // What the stop itself broke off is no failure.
      if (stopped) return;
      ok = false;
      result = { problems: [{ code: "sync-failed", servicePort: undefined, message: errorText(error) }], figures: {} };
    }
    const durationMs = clock.monotonic() - startedAtMs;
    if (ok) succeeded();
    else failing = true;
    if (result.problems.length > 0) complain(result.problems, retryLater());
    else settle();
    if (result.againAfterMs !== undefined) anotherLater(result.againAfterMs);
    const repaired = result.figures.drift_repaired ?? 0;
    if (ok && repaired > 0) {
      logger.warn("others had changed what the kernel holds; it is repaired", { changes: repaired });
    }
    if (ok) logger.debug("synced", { revision, full: isFull, durationMs: Math.round(durationMs), ...result.figures });
    const { problems, figures } = result;
    const owesMore = problems.length > 0 || result.againAfterMs !== undefined || (figures.cleanup_failures ?? 0) > 0;
    const report: SyncReport = {
      ...{ family, revision, ok, full: isFull, endedAtMs: clock.now(), durationMs, problems, figures },
      ...(owesMore ? { unfinished: true } : {}),
    };
    emit({ type: "report", report });
  };

  const succeeded = () => {
    failing = false;
    if (owesFull) resyncLater();
    owesFull = false;
  };

  const settle = () => {
    backoff.reset();
    retries = 0;
    if (complaints.size > 0) logger.info("the earlier problems are gone");
    complaints = new Set();
  };

  // A problem that stays is said once, not at every try.
  const complain = (problems: readonly SyncProblem[], waitMs: number) => {
    const now = new Set<string>();
    for (const { code, servicePort, message } of problems) {
      const complaint = `${code}|${servicePort ?? ""}|${message}`;
      now.add(complaint);
      if (complaints.has(complaint)) continue;
      const fields = { code, servicePort, error: message, inSeconds: seconds(waitMs) };
      if (servicePort === undefined) {
        logger.error(isSetUp ? "a sync failed, will try again" : "setup failed, will try again", fields);
      } else logger.error("a service port could not be programmed, will try again", fields);
    }
    complaints = now;
  };

  const cleanup = async () => {
    cleanupIsAsked = false;
    held = undefined;
    failing = false;
    owesFull = false;
    if (isSetUp) clearRetry();
    clearResync();
    clearAnother();
    let problem: string | undefined;
    try {
      await backend.cleanup();
    } catch (error) {
      problem = errorText(error);
    }
    emit({ type: "cleaned", problem });
  };

  const clearRetry = () => {
    retryIsDue = false;
    cancelRetry?.();
    cancelRetry = undefined;
  };

  const clearResync = () => {
    resyncIsDue = false;
    cancelResync?.();
    cancelResync = undefined;
  };

  const clearAnother = () => {
    anotherIsDue = false;
    cancelAnother?.();
    cancelAnother = undefined;
  };

  const anotherLater = (waitMs: number) => {
    clearAnother();
    cancelAnother = clock.schedule(waitMs, () => {
      anotherIsDue = true;
      wake();
    });
  };

  const retryLater = (): number => {
    clearRetry();
    const waitMs = backoff.nextMs();
    cancelRetry = clock.schedule(waitMs, () => {
      retryIsDue = true;
      wake();
    });
    return waitMs;
  };

  const resyncLater = () => {
    clearResync();
    if (held === undefined) return;
    cancelResync = clock.schedule(held.syncPeriodMs, () => {
      resyncIsDue = true;
      wake();
    });
  };

  retryIsDue = true;
  wake();

  return {
    sync(delta) {
      waiting = delta;
      wake();
    },
    cleanup() {
      cleanupIsAsked = true;
      wake();
    },
    async stop() {
      stopped = true;
      await running;
      clearRetry();
      clearResync();
      clearAnother();
    },
  };
}

function nothingSince(revision: number): FamilyDelta {
  return { revision, base: revision, settings: undefined, set: [], deleted: [] };
}

function seconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
