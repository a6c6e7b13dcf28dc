/** The state of a canary, and its changes. */
import type { ProblemCode } from "../../core/problems/mod.ts";
import { type Family, plural, sameData } from "../../platform/mod.ts";
import type { Node, NodeFamily } from "../contract.ts";
import type { PathCause, PathFinding } from "./path_findings.ts";
import type { CanaryOptions } from "./options.ts";
import type { CanaryNetwork, Responder, TryOutcome } from "./probe.ts";

/**
 * Why the canary of a family does not answer, beyond what the kernel shows (`PathCause`):
 * - `rules-changed`: another program had removed or changed rules of services, which were repaired;
 * - `no-route`: this node has no route to the canary's address;
 * - `foreign-answer`: another program answers at its address;
 * - `unknown`: none of them was found.
 */
type CanaryCause = PathCause | "rules-changed" | "no-route" | "foreign-answer" | "unknown";

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
  readonly durationMs: number | undefined;
  /** The cause and the details if it is failing. */
  readonly cause: CanaryCause | undefined;
  readonly detail: string | undefined;
  /** All tries so far, and the failed ones by cause. */
  readonly tries: number;
  readonly failures: Readonly<Partial<Record<CanaryCause, number>>>;
}

/** The parameters of a canary. */
export interface CanaryParts {
  readonly node: Node;
  readonly served: NodeFamily;
  readonly range: string;
  readonly options: Pick<CanaryOptions, "intervalMs" | "timeoutMs">;
  /** Called when the state, the cause or the details have changed. */
  readonly onChange: (status: CanaryStatus) => void;
  /** The sockets of the system by default. */
  readonly network?: CanaryNetwork;
}

/** A canary with its responder. */
export interface Placed {
  readonly address: string;
  /** Whether the responder's address is still one of this host, and the canary's is not. */
  readonly isCurrent: () => boolean;
  readonly responder: Responder;
  readonly end: AbortController;
}

/** A certain cause, and the evidence since then that it is gone. */
interface Proof {
  /** Whether it can be seen only by listing chains. */
  readonly isListed: boolean;
  /** Whether an examination that can see it has not found it. */
  isRefuted: boolean;
  /** When the canary's answers began, on the monotonic clock; undefined if its last try failed. */
  answersFromMs: number | undefined;
}

/** The changing part of a canary, besides its status, before it is placed. */
const UNPLACED = {
  placed: undefined as Placed | undefined,
  nodeIP: undefined as string | undefined,
  /** Undefined if no certain cause is in effect. */
  proof: undefined as Proof | undefined,
  /** Failed tries whose cause is not decided yet. */
  undecided: 0,
  cancelRetry: () => {},
  /** Called with the number of repaired changes when a comparison has ended. */
  onCompared: undefined as ((repaired: number) => void) | undefined,
  /** The changes that comparisons, requested by the canary or not, have repaired since the last answer. */
  repaired: 0,
  isComparing: false,
  /** No comparison with the kernel is repeated before this time of the monotonic clock. */
  comparisonFromMs: -Infinity,
  /** Starts the next round at once. */
  wake: () => {},
  /** When the chains of other programs were last listed, on the monotonic clock, and how long that took. */
  listedAtMs: -Infinity,
  listedForMs: 0,
};

/** The state of a canary. */
export type State = CanaryParts & typeof UNPLACED & {
  readonly status: { -readonly [Field in keyof CanaryStatus]: CanaryStatus[Field] };
  readonly failures: Partial<Record<CanaryCause, number>>;
};

/** The state of a canary that is not placed. */
export function createState(parts: CanaryParts): State {
  const { served: { family }, node: { clock } } = parts;
  const failures = {};
  const status: State["status"] = {
    ...{ family, state: "waiting", sinceMs: clock.now(), address: undefined, lastAnswerMs: undefined },
    ...{ durationMs: undefined, cause: undefined, detail: undefined, tries: 0, failures },
  };
  return { ...parts, ...UNPLACED, status, failures };
}

/**
 * Packets do not flow: decides why.
 * @param failed the last try; undefined if it was answered, and a finding is certain all the same
 * @param repaired the number of changed rules that the comparison after the failure has repaired
 */
export function decide(
  state: State,
  failed: FailedTry | undefined,
  findings: readonly PathFinding[],
  repaired = 0,
): void {
  const { status } = state, { cause, detail } = verdictOf(`${status.address}`, failed, findings, repaired);
  count(state, cause);
  if (status.state === "failing" && status.cause === cause && status.detail === detail) return;
  if (status.state !== "failing") status.sinceMs = state.node.clock.now();
  Object.assign(status, { state: "failing", cause, detail });
  report(state, "packets-not-flowing");
}

/** Counts the failed tries that are not counted yet. */
export function count(state: State, cause: CanaryCause): void {
  const { failures, undecided } = state;
  if (undecided > 0) failures[cause] = (failures[cause] ?? 0) + undecided;
  state.undecided = 0;
}

/** The canary cannot be tried. */
export function unusable(state: State, detail: string): void {
  count(state, "no-route");
  change(state, "unusable", detail);
}

/** Enters a state in which packets are not known to have stopped. */
export function change(state: State, to: "waiting" | "answering" | "unusable", detail?: string): void {
  const { status } = state;
  state.onCompared = undefined;
  state.proof = undefined;
  const before = { ...status };
  if (status.state !== to) status.sinceMs = state.node.clock.now();
  Object.assign(status, { state: to, cause: undefined, detail });
  if (!sameData(before, { ...status })) report(state, to === "unusable" ? "canary-unusable" : undefined);
}

function report({ node, status, onChange }: State, code: ProblemCode | undefined): void {
  const { family, detail = "" } = status;
  node.reportProblems(`canary ${family}`, code === undefined ? [] : [{ code, subject: family, detail }]);
  onChange({ ...status });
}

/** A failed try. */
export type FailedTry = Exclude<TryOutcome, { kind: "answered" }>;

/** The cause and the details: certain ones first; forwarding last, as packets of the canary are not forwarded. */
function verdictOf(
  address: string,
  failed: FailedTry | undefined,
  findings: readonly PathFinding[],
  repaired: number,
): { readonly cause: CanaryCause; readonly detail: string } {
  if (failed === undefined) return findings.find(({ certain }) => certain)!;
  const what = `${address} does not answer (${failed.message})`;
  if (repaired > 0) {
    const detail = `${what}: ${plural(repaired, "change")} of services' rules by other programs, repaired now`;
    return { cause: "rules-changed", detail };
  }
  if (failed.kind !== "failed") return { cause: failed.kind, detail: what };
  const likeliest = findings.find(({ cause }) => cause !== "forwarding-off") ?? findings[0];
  if (likeliest === undefined) return { cause: "unknown", detail: `${what}, and no cause was found on this node` };
  const { cause } = likeliest;
  const details = findings.filter((finding) => finding.cause === cause).map(({ detail }) => detail);
  return { cause, detail: `${what}; ${cause === "table-full" ? "" : "suspected: "}${details.join("; ")}` };
}
