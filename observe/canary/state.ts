/** The state of a canary, and its changes. */
import { type Clock, type Family, type Logger, sameData } from "../../platform/mod.ts";
import type { CanaryPlan } from "../../core/planning/mod.ts";
import type { PathExamination, PathFinding } from "../../core/model/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import type { CanaryCause, CanaryStatus } from "../mod.ts";
import type { ConnectTo } from "./probe.ts";
import type { ListenAt, Responder } from "./responder.ts";
import type { Verdict } from "./verdict.ts";

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

/** A canary with its responder. */
export interface Placed {
  readonly plan: CanaryPlan;
  /** `address:port` of the canary. */
  readonly address: string;
  /** Whether the responder's address is still one of this host, and the canary's is not. */
  readonly isCurrent: () => boolean;
  readonly responder: Responder;
  readonly end: AbortController;
}

type MutableStatus = { -readonly [Field in keyof CanaryStatus]: CanaryStatus[Field] };

/** The state of a canary. */
export interface State {
  readonly options: CanaryOptions;
  readonly status: MutableStatus;
  readonly failures: Partial<Record<CanaryCause, number>>;
  placed: Placed | undefined;
  nodeIP: string | undefined;
  /** Failed tries whose cause is not decided yet. */
  undecided: number;
  cancelRetry: () => void;
  /** Places it at other addresses. */
  placeAgain: () => void;
  /** Called with the number of repaired changes when a comparison has ended. */
  onCompared: ((repaired: number) => void) | undefined;
  isComparing: boolean;
  /** No comparison with the kernel is repeated before this time of the monotonic clock. */
  comparisonFromMs: number;
  /** Starts the next round at once. */
  wake: () => void;
  listedAtMs: number;
  listedForMs: number;
}

/** The state of a canary that is not placed. */
export function createState(options: CanaryOptions): State {
  const { family, clock } = options;
  const failures: State["failures"] = {};
  return {
    options,
    status: {
      ...{ family, state: "waiting", sinceMs: clock.now(), address: undefined, lastAnswerMs: undefined },
      ...{ durationMs: undefined, cause: undefined, detail: undefined, tries: 0, failures },
    },
    failures,
    placed: undefined,
    nodeIP: undefined,
    undecided: 0,
    cancelRetry: () => {},
    placeAgain: () => {},
    onCompared: undefined,
    isComparing: false,
    comparisonFromMs: -Infinity,
    wake: () => {},
    listedAtMs: -Infinity,
    listedForMs: 0,
  };
}

/** Packets do not flow, for this reason. */
export function decide(state: State, { cause, detail }: Verdict): void {
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
export function count(state: State, cause: CanaryCause): void {
  const { failures, undecided } = state;
  if (undecided > 0) failures[cause] = (failures[cause] ?? 0) + undecided;
  state.undecided = 0;
}

/** The canary cannot be tried. */
export function unusable(state: State, detail: string): void {
  const { family, onProblems } = state.options;
  count(state, "no-route");
  if (state.status.state === "unusable" && state.status.detail === detail) return;
  change(state, "unusable", detail);
  onProblems([{ code: "canary-unusable", subject: family, detail }]);
}

/** Enters a state in which packets are not known to have stopped. */
export function change(state: State, to: "waiting" | "answering" | "unusable", detail?: string): void {
  const { status, options } = state;
  state.onCompared = undefined;
  const before = { ...status };
  if (status.state !== to) status.sinceMs = options.clock.now();
  Object.assign(status, { state: to, cause: undefined, detail });
  if (sameData(before, { ...status })) return;
  if (to !== "unusable") options.onProblems([]);
  options.onChange({ ...status });
}
