import type { SyncReport } from "../core/model/mod.ts";
import type { Clock } from "../platform/mod.ts";

/** Decides when a round of planning begins: isolated changes are planned at once, changes that keep coming are joined. */
export interface RoundPace {
  /** The delay from the first change since the last round to the next round, in milliseconds; 1000 at most. */
  delayMs(): number;
  began(): void;
  synced(report: Pick<SyncReport, "full" | "durationMs">): void;
}

/** The delay of an isolated change, in milliseconds: changes that an API server sends together arrive in several chunks. */
const BATCH_DELAY_MS = 2;
/**
 * A change that comes sooner than this after the beginning of the last round is one that keeps coming. Each such time without a change
 * undoes one round of these, since changes that keep coming have no even distance.
 */
const QUIET_MS = 125;
/** The rounds that do not wait although changes keep coming: a new Service and its EndpointSlices, for example. */
const FREE_ROUNDS = 2;
/** The time between the begins of the first two rounds that wait; it doubles with each further one, up to a second. */
const FIRST_GAP_MS = 100;
/** No change waits longer, which is kube-proxy's default minSyncPeriod. */
const LONGEST_WAIT_MS = 1000;
/** The number of close rounds from which on the gap is the longest. */
const MOST_CLOSE_ROUNDS = FREE_ROUNDS + 1 + Math.ceil(Math.log2(LONGEST_WAIT_MS / FIRST_GAP_MS));

/** The share of a core that sustained work may take. */
const SHARE = 0.1;
/** The work that is possible without waiting after an idle time, in milliseconds of CPU. */
const CAPACITY_MS = 2000;

/** The pace of a proxy whose configuration limits the frequency of syncs: rounds never wait. */
const UNLIMITED: RoundPace = { delayMs: () => BATCH_DELAY_MS, began() {}, synced() {} };

/**
 * A pace without any round so far. A round for each of 20 changes a second costs several times the CPU of one round a second for
 * all of them.
 *
 * Work fills a leaky bucket, which time drains: the process's CPU from the beginning of a round to its first sync, and the duration of
 * each sync, for the tools. A sync without a round, such as a retry, does not count the CPU of what ran before it.
 * @param minSyncPeriodMs kube-proxy's minSyncPeriod; if it is not 0, families limit their syncs by it, and rounds do not wait
 * @param cpuMs the CPU time of the process, all isolates, in milliseconds
 */
export function createRoundPace(clock: Clock, minSyncPeriodMs: number, cpuMs: () => number): RoundPace {
  if (minSyncPeriodMs > 0) return UNLIMITED;
  let pace: Pace = {
    beganMs: -Infinity,
    closeRounds: 0,
    filledMs: 0,
    updatedAtMs: clock.monotonic(),
    beganCpuMs: undefined,
  };
  return {
    delayMs() {
      const nowMs = clock.monotonic();
      pace = afterChange(afterWork(pace, nowMs, 0), nowMs);
      return delayOf(pace, nowMs);
    },
    began() {
      pace = { ...pace, beganMs: clock.monotonic(), beganCpuMs: cpuMs() };
    },
    synced({ full, durationMs }) {
      const roundMs = pace.beganCpuMs === undefined ? 0 : cpuMs() - pace.beganCpuMs;
      pace = { ...pace, beganCpuMs: undefined };
      // The start and comparisons with the kernel are no measure of what changes cost.
      if (!full) pace = afterWork(pace, clock.monotonic(), roundMs + durationMs);
    },
  };
}

interface Pace {
  readonly beganMs: number;
  /** The number of rounds that were asked for soon after the one before, less the times without a change since then. */
  readonly closeRounds: number;
  /** The work in the bucket at `updatedAtMs`. */
  readonly filledMs: number;
  readonly updatedAtMs: number;
  /** The CPU time at the beginning of a round that no sync has ended yet. */
  readonly beganCpuMs: number | undefined;
}

function afterWork(pace: Pace, nowMs: number, workMs: number): Pace {
  const left = Math.max(0, pace.filledMs - (nowMs - pace.updatedAtMs) * SHARE);
  // An overdrawn bucket may not delay changes for longer than the longest wait.
  return { ...pace, filledMs: Math.min(left + workMs, CAPACITY_MS + SHARE * LONGEST_WAIT_MS), updatedAtMs: nowMs };
}

/** A first change has come since the last round. */
function afterChange(pace: Pace, nowMs: number): Pace {
  const quiet = Math.floor((nowMs - pace.beganMs) / QUIET_MS), { closeRounds } = pace;
  return {
    ...pace,
    closeRounds: quiet === 0 ? Math.min(closeRounds + 1, MOST_CLOSE_ROUNDS) : Math.max(0, closeRounds - quiet),
  };
}

function delayOf({ beganMs, closeRounds, filledMs }: Pace, nowMs: number): number {
  const waiting = closeRounds - FREE_ROUNDS;
  const gapMs = waiting > 0 ? Math.min(FIRST_GAP_MS * 2 ** (waiting - 1), LONGEST_WAIT_MS) : 0;
  const waitMs = Math.max(gapMs - (nowMs - beganMs), (filledMs - CAPACITY_MS) / SHARE, BATCH_DELAY_MS);
  return Math.ceil(Math.min(waitMs, LONGEST_WAIT_MS));
}
