import { logProblem, type Problem, type ProblemBoard, problemKind } from "../core/problems/mod.ts";
import type { NodeTracker } from "../core/tracking/mod.ts";
import { type Clock, errorText, type Logger, sleep } from "../platform/mod.ts";

/** Options of `watchNodePresence`. */
interface NodePresenceOptions {
  readonly nodeName: string;
  readonly node: Pick<NodeTracker, "state" | "hasPodCIDR">;
  /** Whether the first sync waits for a pod CIDR (detectLocalMode NodeCIDR). */
  readonly awaitsPodCIDR: boolean;
  /** Names the cluster's other Nodes for a message. Rejects if they cannot be listed. */
  readonly otherNodes: (signal: AbortSignal) => Promise<string>;
  /** Receives the problems while they last. */
  readonly problems: ProblemBoard;
  /** Receives the message of the Event about the missing Node object. */
  readonly onMissing: (message: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The scope of the problems of this node's Node object. */
export const NODE_SCOPE = "Node object";

/** The time that the Node object may be missing without a warning: the kubelet may be starting, too. */
const GRACE_MS = 5_000;
const BETWEEN_REMINDERS_MS = 60_000;

/**
 * Warns if the Node object or the pod CIDR that the proxy needs is missing; to be called once all kinds are synced.
 * Resolves when there is nothing left to warn about, or when the signal aborts.
 */
export async function watchNodePresence(options: NodePresenceOptions): Promise<void> {
  await Promise.all([warnOfMissingNode(options), remindOfPodCIDR(options)]).catch((error) => {
    if (!options.signal.aborted) throw error;
  });
}

async function warnOfMissingNode(options: NodePresenceOptions): Promise<void> {
  const { nodeName, node, otherNodes, problems, onMissing, clock, signal } = options;
  if (node.state().known) return;
  await sleep(clock, GRACE_MS, signal);
  if (node.state().known) return;
  const others = await otherNodes(signal).catch((error) => `the others cannot be listed (${errorText(error)})`);
  signal.throwIfAborted();
  if (node.state().known) return;
  const { title, fix } = problemKind("node-missing");
  problems.report(NODE_SCOPE, [{ code: "node-missing", subject: `Node ${nodeName}`, detail: others }]);
  onMissing(`${nodeName}: ${title}; ${fix}: ${others}`);
}

async function remindOfPodCIDR(options: NodePresenceOptions): Promise<void> {
  const { nodeName, node, awaitsPodCIDR, problems, clock, logger, signal } = options;
  const problem: Problem = {
    code: "pod-cidr-missing",
    subject: `Node ${nodeName}`,
    detail: "the Node object has no spec.podCIDRs yet",
  };
  while (awaitsPodCIDR && !node.hasPodCIDR()) {
    logProblem(logger, problem);
    problems.report("pod CIDR", [problem], { isLogged: true });
    await sleep(clock, BETWEEN_REMINDERS_MS, signal);
  }
  logger.solved({ code: problem.code });
  problems.report("pod CIDR", [], { isLogged: true });
}
