import type { NodeChange, NodeTracker } from "../core/tracking/mod.ts";
import { logProblem, type Problem, type ProblemBoard, problemKind } from "../core/problems/mod.ts";
import type { ProxyHealth } from "../observe/mod.ts";
import { type ClockAndLogger, errorText, sleep, untilAborted } from "../platform/mod.ts";

interface NodeWatchOptions extends ClockAndLogger {
  readonly nodeName: string;
  readonly node: NodeTracker;
  /** Whether the first sync waits for a pod CIDR (detectLocalMode NodeCIDR). */
  readonly awaitsPodCIDR: boolean;
  /** Lists the cluster's other Nodes for a message; undefined if the source has no Node objects. */
  readonly otherNodes: ((signal: AbortSignal) => Promise<string>) | undefined;
  readonly health: Pick<ProxyHealth, "setNodeEligible">;
  readonly problems: ProblemBoard;
  /** Receives the message of the Event about the missing Node object. */
  readonly onMissing: (message: string) => void;
  readonly signal: AbortSignal;
}

interface NodeWatch {
  onSynced(): void;
  onChange(change: NodeChange): void;
}

/** Creates the watch that keeps health, problems and the log up to date with the Node object. */
export function createNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { nodeName, node, otherNodes, health, problems, logger } = options;

  /** Like kube-proxy, treats a deleted Node as it was last seen. */
  const setEligible = () => {
    const { leaving, known } = node.state();
    health.setNodeEligible(!leaving && (known || otherNodes === undefined));
  };

  return {
    onSynced() {
      setEligible();
      if (otherNodes !== undefined) watchNodePresence(options);
    },
    onChange({ after, changed }) {
      setEligible();
      const detail = `Node ${nodeName} was deleted`;
      problems.report(NODE_SCOPE, after.deleted ? [{ code: "node-deleted", subject: `Node ${nodeName}`, detail }] : []);
      if (after.deleted) return;
      const isBack = changed.includes("deleted");
      logger.info(isBack ? "the Node object is there again" : "read the Node object", {
        node: nodeName,
        changed: changed.filter((field) => field !== "deleted").join(),
        ...after.nodeIPs,
        zone: after.zone,
      });
    },
  };
}

/** The dependencies of the watch of a Node object that may be missing. */
type NodePresence = Omit<NodeWatchOptions, "health">;

const NODE_SCOPE = "Node object";

/** The time that the Node object may be missing without a warning: the kubelet may be starting, too. */
const GRACE_MS = 5_000;
const BETWEEN_REMINDERS_MS = 60_000;

/**
 * Warns if the Node object or the pod CIDR that the proxy needs is missing; to be called once all kinds are synced.
 * Resolves when there is nothing left to warn about, or when the signal aborts.
 */
export async function watchNodePresence(options: NodePresence): Promise<void> {
  await untilAborted(Promise.all([warnOfMissingNode(options), remindOfPodCIDR(options)]), options.signal);
}

async function warnOfMissingNode(options: NodePresence): Promise<void> {
  const { nodeName, node, otherNodes, problems, onMissing, clock, signal } = options;
  if (otherNodes === undefined || node.state().known) return;
  await sleep(clock, GRACE_MS, signal);
  if (node.state().known) return;
  const others = await otherNodes(signal).catch((error) => `the others cannot be listed (${errorText(error)})`);
  signal.throwIfAborted();
  if (node.state().known) return;
  const { title, fix } = problemKind("node-missing");
  problems.report(NODE_SCOPE, [{ code: "node-missing", subject: `Node ${nodeName}`, detail: others }]);
  onMissing(`${nodeName}: ${title}; ${fix}: ${others}`);
}

async function remindOfPodCIDR(options: NodePresence): Promise<void> {
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
