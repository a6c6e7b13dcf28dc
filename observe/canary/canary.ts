import { type Clock, errorText, type Family, joinHostPort, type Logger, sameData, sleep } from "../../platform/mod.ts";
import { CANARY_PORT, type CanaryPlan } from "../../core/planning/mod.ts";
import type { PathExamination, PathFinding, SyncReport } from "../../core/model/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import type { CanaryCause, CanaryStatus } from "../mod.ts";
import { firstFree, responderAddress } from "./address.ts";
import { type ConnectTo, tryCanary, type TryOutcome } from "./probe.ts";
import { type ListenAt, type Responder, startResponder } from "./responder.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** Options of `createCanary`; durations in milliseconds. */
export interface CanaryOptions {
  readonly family: Family;
  /** The prefix that its address is taken from. */
  readonly range: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Serves the canary by the rules, or no longer; calls `onEffect` once the rules are in effect. */
  readonly plan: (canary: CanaryPlan | undefined, onEffect: () => void) => void;
  /** Requests a comparison with the kernel; a report of a full sync follows. */
  readonly compare: () => void;
  /** Examines the kernel; undefined if the worker does not answer. */
  readonly examine: (what: PathExamination) => Promise<readonly PathFinding[] | undefined>;
  /** Called when the state, the cause or the details have changed. */
  readonly onChange: (status: CanaryStatus) => void;
  /** Receives the problem of the canary while it lasts. */
  readonly onProblems: (problems: readonly Problem[]) => void;
  /** The addresses of this host, canonical. */
  readonly ownAddresses: () => readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends the canary. */
  readonly signal: AbortSignal;
  readonly listen?: ListenAt;
  readonly connect?: ConnectTo;
}

/** The canary of one family. */
export interface Canary {
  /** Places the canary on the node with this address, or removes it: the family has no services. Idempotent. */
  place(nodeIP: string | undefined): void;
  /** Notes a sync, which may have repaired the rules. */
  reported(report: SyncReport): void;
  /** Undefined while it is not placed. */
  status(): CanaryStatus | undefined;
}

/** The time that the cause of a failure may take to be found before the failure is reported without it. */
const CAUSE_WITHIN_MS = 700;
/** The chains of other programs are listed at most this often, and for at most a hundredth of the time. */
const LISTED_AFTER_MS = 4_000, LISTED_SHARE = 0.01;

/** A canary with its responder. */
interface Placed {
  readonly plan: CanaryPlan;
  /** `address:port` of the canary. */
  readonly address: string;
  readonly responder: Responder;
  readonly end: AbortController;
}

type MutableStatus = { -readonly [Field in keyof CanaryStatus]: CanaryStatus[Field] };

interface State {
  readonly options: CanaryOptions;
  readonly status: MutableStatus;
  readonly failures: Partial<Record<CanaryCause, number>>;
  placed: Placed | undefined;
  nodeIP: string | undefined;
  /** Failed tries whose cause is not decided yet. */
  undecided: number;
  /** Called with the number of repaired changes when a comparison has ended. */
  onCompared: ((repaired: number) => void) | undefined;
  /** Starts the next round at once. */
  wake: () => void;
  listedAtMs: number;
  listedForMs: number;
}

/** Creates a canary that is not placed. */
export function createCanary(options: CanaryOptions): Canary {
  const { family, clock, signal } = options;
  const failures: State["failures"] = {};
  const state: State = {
    options,
    status: {
      ...{ family, state: "waiting", sinceMs: clock.now(), address: undefined, lastAnswerMs: undefined },
      ...{ durationMs: undefined, cause: undefined, detail: undefined, tries: 0, failures },
    },
    failures,
    placed: undefined,
    nodeIP: undefined,
    undecided: 0,
    onCompared: undefined,
    wake: () => {},
    listedAtMs: -Infinity,
    listedForMs: 0,
  };
  signal.addEventListener("abort", () => remove(state), { once: true });
  return {
    place(nodeIP) {
      if (signal.aborted || nodeIP === state.nodeIP) return;
      state.nodeIP = nodeIP;
      remove(state);
      if (nodeIP !== undefined) place(state, nodeIP);
      else options.plan(undefined, () => {});
    },
    reported({ ok, full, figures }) {
      if (!ok || !full) return;
      const repaired = figures.drift_repaired ?? 0;
      state.onCompared?.(repaired);
      if (repaired > 0 && state.status.state === "failing") state.wake();
    },
    status: () => state.nodeIP === undefined ? undefined : { ...state.status, failures: { ...failures } },
  };
}

function place(state: State, nodeIP: string): void {
  const { family, range, ownAddresses, plan, listen, logger, signal } = state.options;
  const own = ownAddresses();
  const address = firstFree(range, own), at = responderAddress(family, nodeIP, own);
  if (address === undefined) return unusable(state, `every address of ${range} that was tried belongs to this host`);
  if (at === undefined) return unusable(state, `this host has no ${family} address at which it could answer`);
  let responder: Responder;
  try {
    responder = startResponder(at, (client) => client === address || ownAddresses().includes(client), listen);
  } catch (error) {
    return unusable(state, `cannot listen on ${at}: ${errorText(error)}`);
  }
  const placed: Placed = {
    plan: { address, target: responder.target },
    address: joinHostPort(address, CANARY_PORT),
    responder,
    end: new AbortController(),
  };
  state.placed = placed;
  state.status.address = placed.address;
  change(state, "waiting");
  logger.debug("canary placed", { family, address: placed.address, responder: responder.target });
  let hasStarted = false;
  plan(placed.plan, () => {
    if (hasStarted || placed.end.signal.aborted || signal.aborted) return;
    hasStarted = true;
    watch(state, placed);
  });
}

function remove(state: State): void {
  state.placed?.end.abort();
  state.placed?.responder.close();
  state.wake();
  state.placed = undefined;
  state.status.address = undefined;
  change(state, "waiting");
}

/** Tries the canary every interval until its end. */
async function watch(state: State, placed: Placed): Promise<void> {
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
  if (first.kind === "no-route" && state.status.lastAnswerMs === undefined) {
    return unusable(state, `${placed.address}: ${first.message}`);
  }
  if (state.status.state === "failing") {
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
  state.options.compare();
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

function decide(state: State, { cause, detail }: Verdict): void {
  const { status, options: { family, onProblems } } = state;
  count(state, cause);
  const isNew = status.state !== "failing" || status.cause !== cause || status.detail !== detail;
  if (!isNew) return;
  if (status.state !== "failing") status.sinceMs = state.options.clock.now();
  Object.assign(status, { state: "failing", cause, detail });
  onProblems([{ code: "packets-not-flowing", subject: family, detail }]);
  state.options.onChange({ ...status });
}

/** Counts the failed tries that are not counted yet. */
function count(state: State, cause: CanaryCause): void {
  const { failures, undecided } = state;
  if (undecided > 0) failures[cause] = (failures[cause] ?? 0) + undecided;
  state.undecided = 0;
}

function unusable(state: State, detail: string): void {
  const { family, onProblems } = state.options;
  count(state, "no-route");
  if (state.status.state === "unusable" && state.status.detail === detail) return;
  change(state, "unusable", detail);
  onProblems([{ code: "canary-unusable", subject: family, detail }]);
}

/** Enters a state in which packets are not known to have stopped. */
function change(state: State, to: "waiting" | "answering" | "unusable", detail?: string): void {
  const { status, options } = state;
  state.onCompared = undefined;
  const before = { ...status };
  if (status.state !== to) status.sinceMs = options.clock.now();
  Object.assign(status, { state: to, cause: undefined, detail });
  if (sameData(before, { ...status })) return;
  if (to !== "unusable") options.onProblems([]);
  options.onChange({ ...status });
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
