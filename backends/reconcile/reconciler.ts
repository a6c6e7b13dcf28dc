import type { ComparisonCause, SyncProblem } from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { RulesetGeneration } from "../tools/mod.ts";
import type { Refusals } from "./refusals.ts";

/**
 * The kernel of one backend, as the reconciler drives it. The backend keeps the desired state and the dirty keys, which may
 * differ from it. The reconciler keeps the realized state, and decides when to read, write and retry.
 */
export interface Target<Realized, Owner> {
  /**
   * Reads the kernel, and marks everything that differs from the desired state as dirty, surplus objects included.
   * Throws if the kernel cannot be read; nothing changes then.
   * @param before the realized state as known before; undefined if it is unknown
   * @param isFirst whether no earlier call has succeeded
   */
  list(before: Realized | undefined, isFirst: boolean): Promise<Listing<Realized>>;
  /** Counts changes by other programs cheaply; undefined if only a listing can. Without it, each comparison lists everything. */
  glance?(realized: Realized): Promise<number | undefined>;
  /**
   * Updates and deletes dirty objects, and records in `realized` what is in effect. Adds services that the kernel
   * refuses to the refusals, and writes the others. Throws if the kernel could not be brought to the desired state;
   * objects that are not in effect then stay dirty.
   */
  write(realized: Realized, run: RunState): Promise<Outcome>;
  /** Marks the objects of these owners as dirty: the kernel may accept them now. */
  retry(owners: readonly Owner[]): void;
  /** Reads what a comparison has written; returns the number of differences that were not real. */
  confirm?(realized: Realized): Promise<number>;
}

/** Result of reading the kernel. */
interface Listing<Realized> {
  readonly realized: Realized;
  /** The number of objects changed by other programs since they were written. */
  readonly drifted: number;
  /** The UDP frontends that the kernel serves; only of the first listing. */
  readonly udpFrontends?: ReadonlySet<string>;
}

/**
 * The outcome of a write:
 * - `written`: everything that is not refused is in effect
 * - `incomplete`: a service was left out, and the rest is still to be written
 * - `uncertain`: the tool refused a change, possibly because the realized state is wrong: compare, then write
 */
export type Outcome = "written" | "incomplete" | "uncertain";

/** The state of the run that a write is part of. */
export interface RunState {
  /** Whether the kernel was read in this run: then a refusal is caused by the input. */
  readonly isFresh: boolean;
  /** Whether the write is part of a comparison. */
  readonly isComparison: boolean;
  /** The number of writes left for the search for refused changes. */
  readonly searchBudget: { left: number };
}

/** Brings the kernel to the desired state. */
export interface Reconciler<Realized, Owner> {
  /** Writes dirty objects, after reading the kernel if its state is unknown. Throws as `Target.write` and `list` do. */
  run(): Promise<void>;
  /** Compares the kernel with the desired state, retries refused changes, and writes. Throws as `run` does. */
  compareAndRun(cause?: ComparisonCause): Promise<void>;
  /** The realized state, read from the kernel if it is unknown. */
  known(): Promise<Realized>;
  /** The realized state, if known. */
  realized(): Realized | undefined;
  /** Forgets the realized state: it may be wrong. */
  invalidate(): void;
  /** The service ports that the kernel refuses. */
  problems(): SyncProblem[];
  /** The reason why the kernel refuses a service port; undefined if it does not. */
  problemOf(owner: Owner): SyncProblem | undefined;
  /** The number of objects changed by other programs since the last call. */
  takeDrifted(): number;
  /** The UDP frontends that the kernel served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<string>;
}

/** Parts and limits of a reconciler. */
interface ReconcilerOptions<Realized, Owner> {
  readonly target: Target<Realized, Owner>;
  readonly refusals: Refusals<Owner>;
  /** The maximum number of writes of one run for the search for refused changes. */
  readonly searchLimit?: number;
  /** Limits the share of time spent on listing, for backends where listing costs as much as writing. */
  readonly clock?: Clock;
  /** Spares comparisons while nothing has changed the ruleset; for kernels that are an nf_tables ruleset and nothing else. */
  readonly generation?: RulesetGeneration;
}

/** The largest share of time spent on listing the kernel for comparisons. */
const COMPARING_SHARE: Readonly<Record<ComparisonCause, number>> = { interval: 0.01, fault: 0.1 };
/** The same while something was written that no listing has shown: a tool may report success without writing. */
const UNREAD_SHARE = 0.03;

/**
 * The proof that the ruleset is as desired: two listings of one generation. The differences that the first one finds are written; a
 * tool may report success without writing them, which the second one finds. Any other write needs a new proof.
 */
interface Proof {
  /** The generation of the last listing. */
  readonly generation: number | undefined;
  readonly isComplete: boolean;
}

const NO_PROOF: Proof = { generation: undefined, isComplete: false };

/** When the last listing ended, how long it took, and the duration of the faster one of the last two. */
interface ListingTimes {
  readonly atMs: number;
  readonly tookMs: number;
  readonly fasterMs: number;
}

interface State<Realized> {
  realized?: Realized;
  listing: ListingTimes;
  hasUnreadWrites: boolean;
  proof: Proof;
  /** The UDP frontends of the first listing, until they are taken; undefined before it. */
  earlierFrontends?: ReadonlySet<string>;
}

const NO_FRONTENDS: ReadonlySet<string> = new Set();

/** Creates a reconciler of a kernel whose state is unknown. */
export function createReconciler<Realized, Owner>(
  { target, refusals, searchLimit = 0, clock, generation }: ReconcilerOptions<Realized, Owner>,
): Reconciler<Realized, Owner> {
  const state: State<Realized> = {
    listing: { atMs: -Infinity, tookMs: Infinity, fasterMs: 0 },
    hasUnreadWrites: false,
    proof: NO_PROOF,
  };
  const drifted = createAccumulator(() => 0);

  async function list(): Promise<Realized> {
    const before = state.realized, startedMs = clock?.monotonic() ?? 0, current = generation?.();
    const listing = await target.list(before, state.earlierFrontends === undefined);
    state.earlierFrontends ??= listing.udpFrontends ?? NO_FRONTENDS;
    if (clock) state.listing = timesAfter(state.listing, startedMs, clock.monotonic());
    // What another program changed is written again.
    state.hasUnreadWrites = listing.drifted > 0;
    state.proof = { generation: current, isComplete: current !== undefined && current === state.proof.generation };
    if (before !== undefined) drifted.value += listing.drifted;
    return state.realized = listing.realized;
  }

  async function known(): Promise<Realized> {
    return state.realized ?? await list();
  }

  async function compare(before: Realized, cause: ComparisonCause): Promise<void> {
    const { proof, hasUnreadWrites } = state;
    if (proof.isComplete && !hasUnreadWrites && generation?.() === proof.generation) return;
    const changes = isListingDue(state, cause, clock) ? undefined : await target.glance?.(before);
    if (changes === undefined) await list();
    else drifted.value += changes;
  }

  async function run(isComparison: boolean): Promise<void> {
    const searchBudget = { left: searchLimit };
    let isFresh = state.realized === undefined;
    for (;;) {
      const realized = await known();
      const outcome = await target.write(realized, { isFresh, isComparison, searchBudget });
      if (outcome === "written") return;
      if (outcome === "uncertain") {
        isFresh = true;
        await compare(realized, "interval");
      }
    }
  }

  return {
    async run() {
      state.proof = NO_PROOF;
      await run(false);
      state.hasUnreadWrites = true;
    },
    async compareAndRun(cause = "interval") {
      const refused = refusals.takeAll(clock?.monotonic());
      if (refused.length > 0) state.proof = NO_PROOF;
      target.retry(refused);
      if (state.realized !== undefined) await compare(state.realized, cause);
      await run(true);
      if (target.confirm && state.realized !== undefined) drifted.value -= await target.confirm(state.realized);
    },
    known,
    realized: () => state.realized,
    invalidate() {
      state.realized = undefined;
      state.proof = NO_PROOF;
    },
    problems: refusals.problems,
    problemOf: refusals.problemOf,
    takeDrifted: drifted.take,
    takeEarlierUdpFrontends() {
      const taken = state.earlierFrontends ?? NO_FRONTENDS;
      if (taken.size > 0) state.earlierFrontends = NO_FRONTENDS;
      return taken;
    },
  };
}

/** The times after another listing. A single slow one, as after a flood of clients, must not put off the next one. */
function timesAfter(before: ListingTimes, startedMs: number, atMs: number): ListingTimes {
  const tookMs = atMs - startedMs;
  return { atMs, tookMs, fasterMs: Math.min(before.tookMs, tookMs) };
}

/** Whether another listing stays within the share of time for it. */
function isListingDue(
  { listing, hasUnreadWrites }: Pick<State<unknown>, "listing" | "hasUnreadWrites">,
  cause: ComparisonCause,
  clock: Clock | undefined,
): boolean {
  const share = Math.max(COMPARING_SHARE[cause], hasUnreadWrites ? UNREAD_SHARE : 0);
  return !clock || clock.monotonic() - listing.atMs >= listing.fasterMs / share;
}

/** Accumulates a value until it is taken. */
export interface Accumulator<Value> {
  value: Value;
  /** Returns the value and starts again. */
  take(): Value;
}

/** Creates an accumulator that starts with an initial value each time. */
export function createAccumulator<Value>(initial: () => Value): Accumulator<Value> {
  const accumulator: Accumulator<Value> = {
    value: initial(),
    take() {
      const taken = accumulator.value;
      accumulator.value = initial();
      return taken;
    },
  };
  return accumulator;
}
