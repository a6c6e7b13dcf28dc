/** The state of a canary, and its changes. */
import { type Clock, type Family, type Logger, plural, sameData } from "../../platform/mod.ts";
import type { InternalService } from "../../core/planning/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import type { PathCause, PathExamination, PathFinding } from "./calls.ts";
import type { ConnectTo, ListenAt, Responder, TryOutcome } from "./probe.ts";

/**
 * Why the canary of a family does not answer, beyond what the kernel shows (`PathCause`):
 * - `rules-changed`: another program had removed or changed rules of services, which were repaired;
 * - `no-route`: this node has no route to the canary's address;
 * - `foreign-answer`: another program answers at its address;
 * - `unknown`: none of them was found.
 */
export type CanaryCause = PathCause | "rules-changed" | "no-route" | "foreign-answer" | "unknown";

/** The canary of one family. Plain data. */
export interface CanaryStatus {
  readonly family: Family;
  /**
   * - `waiting`: its rules are not in effect yet;
   * - `answering`: packets flow;
   * - `failing`: packets do not flow;
   * - `unusable`: it cannot be tried on this node, so nothing is known.
   */
  readonly state: "waiting" | "answering" | "failing" | "unusable";
  /** The beginning of the state, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** The `address:port` that is tried; undefined while there is none. */
  readonly address: string | undefined;
  /** Wall time of the last answer, in milliseconds since 1970; undefined before the first. */
  readonly lastAnswerMs: number | undefined;
  /** The duration of the last answered try. */
  readonly durationMs: number | undefined;
  /** The cause and the details if it is failing. */
  readonly cause: CanaryCause | undefined;
  readonly detail: string | undefined;
  /** All tries so far, and the failed ones by cause. */
  readonly tries: number;
  readonly failures: Readonly<Partial<Record<CanaryCause, number>>>;
}

/** Options of `createCanary`; durations in milliseconds. */
export interface CanaryOptions {
  readonly family: Family;
  /** The prefix that its address is taken from. */
  readonly range: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Serves the canary by the rules, or no longer; calls `onEffect` once the rules are in effect. */
  readonly plan: (canary: InternalService | undefined, onEffect: () => void) => void;
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
  readonly plan: InternalService;
  /** `address:port` of the canary. */
  readonly address: string;
  /** Whether the responder's address is still one of this host, and the canary's is not. */
  readonly isCurrent: () => boolean;
  readonly responder: Responder;
  readonly end: AbortController;
}

/** A certain cause, and the evidence since then that it is gone. */
export interface Proof {
  /** Whether it can be seen only by listing chains. */
  readonly isListed: boolean;
  /** Whether an examination that can see it has not found it. */
  isRefuted: boolean;
  /** When the canary's answers began, on the monotonic clock; undefined if its last try failed. */
  answersFromMs: number | undefined;
}

type MutableStatus = { -readonly [Field in keyof CanaryStatus]: CanaryStatus[Field] };

/** The state of a canary. */
export interface State {
  readonly options: CanaryOptions;
  readonly status: MutableStatus;
  readonly failures: Partial<Record<CanaryCause, number>>;
  placed: Placed | undefined;
  nodeIP: string | undefined;
  /** Undefined if no certain cause is in effect. */
  proof: Proof | undefined;
  /** Failed tries whose cause is not decided yet. */
  undecided: number;
  cancelRetry: () => void;
  /** Places it at other addresses. */
  placeAgain: () => void;
  /** Called with the number of repaired changes when a comparison has ended. */
  onCompared: ((repaired: number) => void) | undefined;
  /** The changes that comparisons, requested by the canary or not, have repaired since the last answer. */
  repaired: number;
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
    proof: undefined,
    undecided: 0,
    cancelRetry: () => {},
    placeAgain: () => {},
    onCompared: undefined,
    repaired: 0,
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
  state.proof = undefined;
  const before = { ...status };
  if (status.state !== to) status.sinceMs = options.clock.now();
  Object.assign(status, { state: to, cause: undefined, detail });
  if (sameData(before, { ...status })) return;
  if (to !== "unusable") options.onProblems([]);
  options.onChange({ ...status });
}

/** A failed try. */
type FailedTry = Exclude<TryOutcome, { kind: "answered" }>;

/** Why packets do not flow, and the details in a sentence without its full stop. */
export interface Verdict {
  readonly cause: CanaryCause;
  readonly detail: string;
}

/** What is known when packets do not flow. */
interface Evidence {
  /** The `address:port` that was tried. */
  readonly address: string;
  /** The last try; undefined if it was answered, and a finding is certain all the same. */
  readonly failed: FailedTry | undefined;
  readonly findings: readonly PathFinding[];
  /** The number of changed rules that the comparison after the failure has repaired. */
  readonly repaired: number;
}

/**
 * Decides the cause: certain ones first. Forwarding is suspected last, because packets of the canary are not forwarded.
 */
export function verdictOf({ address, failed, findings, repaired }: Evidence): Verdict {
  if (failed === undefined) {
    const [{ cause, detail }] = findings.filter(({ certain }) => certain) as [PathFinding];
    return { cause, detail };
  }
  const what = `${address} does not answer (${failed.message})`;
  if (repaired > 0) {
    const detail = `${what}: ${plural(repaired, "change")} of services' rules by other programs, repaired now`;
    return { cause: "rules-changed", detail };
  }
  if (failed.kind !== "failed") return { cause: failed.kind, detail: what };
  const [likeliest, ...others] = [
    ...findings.filter(({ cause }) => cause !== "forwarding-off"),
    ...findings.filter(({ cause }) => cause === "forwarding-off"),
  ];
  if (likeliest === undefined) return { cause: "unknown", detail: `${what}, and no cause was found on this node` };
  const all = [likeliest, ...others.filter(({ cause }) => cause === likeliest.cause)];
  const suspicion = likeliest.cause === "table-full" ? "" : "suspected: ";
  return { cause: likeliest.cause, detail: `${what}; ${suspicion}${all.map(({ detail }) => detail).join("; ")}` };
}
