import type { StateWords } from "../../answers/status/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import { askNode, byName, type Kubectl, KubectlError, type NodeEntry, type PodSelection } from "./kubectl.ts";

/** The status of one node, or why there is none. Plain data. */
export interface NodeReport {
  readonly node: string;
  /** The pod of Sluice; undefined if the node has none. */
  readonly pod: string | undefined;
  readonly answer: "status" | "none" | "no pod";
  readonly state: StateWords;
  /** Undefined unless the node has answered with it. */
  readonly status: Omit<NodeStatus, "state"> | undefined;
}

/** The number of nodes asked at a time; each is a process of kubectl. */
const AT_ONCE = 16;

/** Asks all nodes for their status, the worst first; `onAnswer` gets the number of answers so far. */
export async function surveyNodes(
  kubectl: Kubectl,
  entries: readonly NodeEntry[],
  selection: PodSelection,
  onAnswer: (answers: number) => void,
): Promise<readonly NodeReport[]> {
  const reports: NodeReport[] = [];
  const queue = entries.values();
  const work = async () => {
    for (const entry of queue) {
      reports.push(await reportOf(kubectl, entry, selection));
      onAnswer(reports.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return reports.sort((a, b) => rankOf(a) - rankOf(b) || byName(a.node, b.node));
}

async function reportOf(
  kubectl: Kubectl,
  { node, ready, pod }: NodeEntry,
  selection: PodSelection,
): Promise<NodeReport> {
  if (pod === undefined) {
    const state = { tone: "idle", words: "no pod", reason: undefined } as const;
    return { node, pod, answer: "no pod", state, status: undefined };
  }
  try {
    const args = ["status", "--output", "json"];
    const { stdout, stderr } = await askNode(kubectl, { node, ready, pod }, args, selection);
    const status = readNodeStatus(stdout);
    if (status === undefined) throw notUnderstood(stderr);
    const { state, ...rest } = status;
    return { node, pod: pod.name, answer: "status", state, status: rest };
  } catch (error) {
    if (!(error instanceof KubectlError)) throw error;
    const state = { tone: "bad", words: `no answer: ${error.words}`, reason: error.reason } as const;
    return { node, pod: pod.name, answer: "none", state, status: undefined };
  }
}

/** Sluice runs in the pod, but prints no status. */
function notUnderstood(stderr: string): KubectlError {
  const reason = stderr.split("\n").at(-1)!;
  if (/unknown (command|flag)/.test(stderr)) return new KubectlError("a version without sluice status", reason);
  return new KubectlError("its proxy does not answer", reason === "" ? undefined : reason);
}

/** The order of the reports: broken, no answer, not in order or of another version, no pod, in order. */
function rankOf({ answer, state, status }: NodeReport): number {
  if (answer === "none") return 1;
  if (answer === "no pod") return 3;
  if (status?.inOrder === false) return state.tone === "bad" ? 0 : 2;
  return state.tone === "good" ? 4 : 2;
}

/** 1 if something is broken, 3 if a node with a pod does not answer or none has a pod, otherwise 0. */
export function exitStatusOf(reports: readonly NodeReport[]): 0 | 1 | 3 {
  if (reports.some(({ status }) => status?.inOrder === false)) return 1;
  const isSilent = reports.some(({ answer }) => answer === "none");
  return isSilent || reports.every(({ answer }) => answer === "no pod") ? 3 : 0;
}

/** The fields of a node's status that its version sends. */
interface NodeStatus {
  readonly version: string;
  readonly mode: string | undefined;
  readonly inOrder: boolean;
  readonly state: StateWords;
  readonly link: StateWords | undefined;
  /** The time since the beginning of the state, in milliseconds. */
  readonly lastingMs: number | undefined;
  /** The number of service ports that need attention, and the names of the first ones; undefined if unknown. */
  readonly attention: { readonly total: number; readonly names: readonly string[] } | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Parses the output of `sluice status -o json`; undefined for other output. A version that sends no state is judged by its
 * health.
 */
function readNodeStatus(text: string): NodeStatus | undefined {
  let report: Fields;
  try {
    report = fieldsOf(JSON.parse(text));
  } catch {
    return undefined;
  }
  const status = fieldsOf(report.status), needy = fieldsOf(report.needy);
  const version = textOf(status.version), state = wordsOf(status.state);
  if (version === undefined) return undefined;
  const sinceMs = numberOf(status.sinceMs), atMs = numberOf(status.atMs), total = numberOf(needy.total);
  const services: readonly unknown[] = Array.isArray(needy.services) ? needy.services : [];
  return {
    version,
    mode: textOf(status.mode),
    inOrder: state === undefined ? status.healthy === true : status.inOrder === true,
    state: state ?? stateOfOlder(version, status.healthy),
    link: wordsOf(status.linkState),
    lastingMs: sinceMs === undefined || atMs === undefined ? undefined : Math.max(0, atMs - sinceMs),
    attention: total === undefined
      ? undefined
      : { total, names: services.flatMap((service) => textOf(fieldsOf(service).name) ?? []) },
  };
}

function stateOfOlder(version: string, healthy: unknown): StateWords {
  return {
    tone: healthy === true ? "warning" : "bad",
    words: healthy === true ? "healthy" : healthy === false ? "not healthy" : "unknown",
    reason: `Sluice ${version} sends no more; run sluice status on the node`,
  };
}

function wordsOf(value: unknown): StateWords | undefined {
  const fields = fieldsOf(value);
  const tone = toneOf(fields.tone), words = textOf(fields.words);
  return tone === undefined || words === undefined ? undefined : { tone, words, reason: textOf(fields.reason) };
}

const textOf = shape.ifValid(shape.TEXT);
const numberOf = shape.ifValid(shape.FINITE);
const toneOf = shape.ifValid(shape.oneOf("good", "warning", "bad", "idle"));

/** The fields of an object; none of anything else. */
function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? value as Fields : {};
}

const REFRESH_MS = 1000;

/**
 * Shows the progress of something that takes longer than a second: on a terminal in a line that is replaced, elsewhere in one
 * line. Returns a function that ends it.
 */
export function showProgress(
  clock: Clock,
  text: () => string,
  write: (text: string) => void,
  isTerminal: boolean,
): () => void {
  let isShown = false;
  const show = () => {
    write(isTerminal ? `\r\x1b[K${text()}` : `${text()}\n`);
    isShown = true;
    if (isTerminal) cancel = clock.schedule(REFRESH_MS, show);
  };
  let cancel = clock.schedule(REFRESH_MS, show);
  return () => {
    cancel();
    if (isShown && isTerminal) write("\r\x1b[K");
  };
}
