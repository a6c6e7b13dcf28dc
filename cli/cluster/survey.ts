import type { StateWords } from "../../answers/control/mod.ts";
import { askNode } from "./ask_node.ts";
import { byName, type NodeEntry } from "./inventory.ts";
import { type Kubectl, KubectlError } from "./kubectl.ts";
import { type NodeStatus, readNodeStatus } from "./node_status.ts";

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

/** Options of `surveyNodes`. */
export interface SurveyOptions {
  readonly namespace: string;
  /** The maximum time of each answer, in milliseconds. */
  readonly timeoutMs: number;
  /** Called after each answer, with the number of answers so far. */
  readonly onAnswer: (answers: number) => void;
}

/** The number of nodes asked at a time; each is a process of kubectl. */
const AT_ONCE = 16;

/** Asks all nodes for their status, and returns the answers, the worst first. */
export async function surveyNodes(
  kubectl: Kubectl,
  entries: readonly NodeEntry[],
  options: SurveyOptions,
): Promise<readonly NodeReport[]> {
  const reports: NodeReport[] = [];
  const queue = entries.values();
  const work = async () => {
    for (const entry of queue) {
      reports.push(await reportOf(kubectl, entry, options));
      options.onAnswer(reports.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return reports.sort((a, b) => rankOf(a) - rankOf(b) || byName(a.node, b.node));
}

async function reportOf(
  kubectl: Kubectl,
  { node, ready, pod }: NodeEntry,
  { namespace, timeoutMs }: SurveyOptions,
): Promise<NodeReport> {
  if (pod === undefined) {
    return {
      node,
      pod,
      answer: "no pod",
      state: { tone: "idle", words: "no pod", reason: undefined },
      status: undefined,
    };
  }
  try {
    const question = { namespace, args: ["status", "--output", "json"], timeoutMs };
    const { stdout, stderr } = await askNode(kubectl, { node, ready, pod }, question);
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

/**
 * The exit status by the worst report: 1 if something is broken; 3 if a node with a pod does not answer, or none has a
 * pod; otherwise 0.
 */
export function exitStatusOf(reports: readonly NodeReport[]): 0 | 1 | 3 {
  if (reports.some(({ status }) => status?.inOrder === false)) return 1;
  const isSilent = reports.some(({ answer }) => answer === "none");
  return isSilent || reports.every(({ answer }) => answer === "no pod") ? 3 : 0;
}
