/** The tries of a placed canary, and what follows from them. */
import { sleep } from "../../platform/mod.ts";
import type { PathFinding } from "../../core/model/mod.ts";
import { tryCanary, type TryOutcome } from "./probe.ts";
import { type CanaryOptions, change, count, decide, type Placed, type State, unusable } from "./state.ts";
import { verdictOf } from "./verdict.ts";

/** The time that the cause of a failure may take to be found before the failure is reported without it. */
const CAUSE_WITHIN_MS = 1_000;
/** The chains of other programs are listed at most this often, and for at most a twentieth of the time. */
const LISTED_AFTER_MS = 4_000, LISTED_SHARE = 0.05;

/** Tries the canary every interval until its end. */
export async function watch(state: State, placed: Placed): Promise<void> {
  const { clock, intervalMs } = state.options;
  while (!placed.end.signal.aborted) {
    const startedMs = clock.monotonic();
    const woken = Promise.withResolvers<void>();
    state.wake = woken.resolve;
    await round(state, placed);
    const cancel = clock.schedule(Math.max(0, startedMs + intervalMs - clock.monotonic()), woken.resolve);
    await woken.promise;
    cancel();
  }
}

/** One try, and if packets flowed until now, a second one before it counts. */
async function round(state: State, placed: Placed): Promise<void> {
  const { clock, timeoutMs } = state.options;
  const { signal } = placed.end;
  const startedMs = clock.monotonic();
  const examining = within(state, timeoutMs, examineInTurn(state));
  const first = await attempt(state, placed);
  const { findings, isComplete } = await examining ?? { findings: [], isComplete: false };
  const certain = findings.filter((finding) => finding.certain);
  if (signal.aborted) return;
  if (first.kind === "answered") return answered(state, placed, first.durationMs, certain);
  if (!placed.isCurrent()) return state.placeAgain();
  if (first.kind === "no-route" && state.status.lastAnswerMs === undefined) {
    return unusable(state, `${placed.address}: ${first.message}`);
  }
  if (state.status.state === "failing") {
    // An earlier comparison may have been too soon after the last listing to see everything.
    if (certain.length === 0) compare(state);
    if (!isComplete) return count(state, state.status.cause ?? "unknown");
    return decide(state, verdictOf({ address: placed.address, failed: first, findings, repaired: 0 }));
  }
  const examined = state.options.examine("everything");
  await sleep(clock, Math.max(0, startedMs + timeoutMs - clock.monotonic()), signal).catch(() => {});
  const second = await attempt(state, placed);
  if (signal.aborted) return;
  if (second.kind === "answered") {
    count(state, "unknown");
    return answered(state, placed, second.durationMs, certain);
  }
  await fails(state, placed, second, examined);
}

type Failed = Exclude<TryOutcome, { kind: "answered" }>;

async function attempt(state: State, { address, responder: { nonce } }: Placed): Promise<TryOutcome> {
  const { timeoutMs, clock, connect } = state.options;
  const outcome = await tryCanary({ address, nonce, timeoutMs, clock, connect });
  state.status.tries++;
  if (outcome.kind !== "answered") state.undecided++;
  return outcome;
}

function answered(state: State, placed: Placed, durationMs: number, certain: readonly PathFinding[]): void {
  const { status, options: { clock } } = state;
  status.lastAnswerMs = clock.now();
  status.durationMs = durationMs;
  if (certain.length === 0) return change(state, "answering");
  const evidence = { address: placed.address, failed: undefined, findings: certain, repaired: 0 };
  decide(state, verdictOf(evidence));
}

/** Packets have stopped: says so at once, and names the cause as soon as it is found. */
async function fails(
  state: State,
  placed: Placed,
  failed: Failed,
  examined: ReturnType<CanaryOptions["examine"]>,
): Promise<void> {
  const { clock } = state.options;
  const { status } = state;
  status.state = "failing";
  status.sinceMs = clock.now();
  status.cause = "unknown";
  state.options.onChange({ ...status });
  const comparison = Promise.withResolvers<number>();
  let repaired = 0;
  state.onCompared = (changes) => {
    repaired = changes;
    comparison.resolve(changes);
  };
  state.isComparing = false;
  state.comparisonFromMs = -Infinity;
  compare(state);
  const found = Promise.all([examined, comparison.promise]).then(([findings]) => findings);
  const findings = await within(state, CAUSE_WITHIN_MS, found) ?? await within(state, 0, examined) ?? [];
  if (placed.end.signal.aborted) return;
  decide(state, verdictOf({ address: placed.address, failed, findings, repaired }));
  // A comparison of a large ruleset takes longer.
  state.onCompared = (changes) => {
    if (changes === 0 || status.state !== "failing") return;
    decide(state, verdictOf({ address: placed.address, failed, findings, repaired: changes }));
  };
}

/** Requests a comparison with the kernel, unless one runs or the last one is too recent. */
function compare(state: State): void {
  const { clock, compare } = state.options;
  if (state.isComparing || clock.monotonic() < state.comparisonFromMs) return;
  state.isComparing = true;
  compare();
}

/** What was found, and whether everything was examined. */
interface Examined {
  readonly findings: readonly PathFinding[];
  readonly isComplete: boolean;
}

/** Reads what is certain to stop packets although the canary answers, and the chains as often as they can be listed cheaply. */
async function examineInTurn(state: State): Promise<Examined | undefined> {
  const { examine, clock, intervalMs } = state.options;
  const startedMs = clock.monotonic();
  const pauseMs = Math.max(LISTED_AFTER_MS, state.listedForMs / LISTED_SHARE);
  // Half an interval less, for intervals that are no divisor of the pause.
  const isComplete = startedMs - state.listedAtMs >= pauseMs - intervalMs / 2;
  if (isComplete) state.listedAtMs = startedMs;
  const findings = await examine(isComplete ? "everything" : "settings");
  if (isComplete) state.listedForMs = clock.monotonic() - startedMs;
  return findings && { findings, isComplete };
}

/** The result if it comes in time; undefined otherwise, or if it fails. */
async function within<T>(state: State, timeoutMs: number, work: Promise<T | undefined>): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const cancel = state.options.clock.schedule(timeoutMs, () => resolve(undefined));
  try {
    return await Promise.race([work.catch(() => undefined), promise]);
  } finally {
    cancel();
  }
}
