import { type Clock, errorText, type Logger, sleep } from "../platform/mod.ts";
import type { NodeTracker } from "../core/tracking/mod.ts";

/** The parts of the watch over this node's Node object. */
export interface NodePresenceOptions {
  readonly nodeName: string;
  readonly node: Pick<NodeTracker, "state" | "hasPodCIDR">;
  /** Whether the first sync waits for a pod CIDR (detectLocalMode NodeCIDR). */
  readonly awaitsPodCIDR: boolean;
  /** The end of a sentence: which Nodes the cluster has instead. Rejects where they cannot be read. */
  readonly otherNodes: (signal: AbortSignal) => Promise<string>;
  /** Takes the sentence for an administrator where the Node object is missing. */
  readonly onMissing: (message: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** How long the Node object may be missing before that is a warning: a kubelet may start at the same time. */
const GRACE_MS = 5_000;
const BETWEEN_REMINDERS_MS = 60_000;

/**
 * Warns where the Node object or the pod CIDR that the proxy needs is missing; called once all kinds are synced.
 * Resolves when there is nothing left to warn of, or with the signal.
 */
export async function watchNodePresence(options: NodePresenceOptions): Promise<void> {
  await Promise.all([warnOfMissingNode(options), remindOfPodCIDR(options)]).catch((error) => {
    if (!options.signal.aborted) throw error;
  });
}

async function warnOfMissingNode(options: NodePresenceOptions): Promise<void> {
  const { nodeName, node, otherNodes, onMissing, clock, logger, signal } = options;
  if (node.state().known) return;
  await sleep(clock, GRACE_MS, signal);
  if (node.state().known) return;
  const others = await otherNodes(signal).catch((error) => `the others cannot be listed (${errorText(error)})`);
  signal.throwIfAborted();
  const message =
    `there is no Node ${nodeName}, so /healthz answers 503, and zone and addresses are unknown; set this ` +
    `node's name by --hostname-override or hostnameOverride: ${others}`;
  logger.warn(message, { node: nodeName });
  onMissing(message);
}

async function remindOfPodCIDR({ nodeName, node, awaitsPodCIDR, clock, logger, signal }: NodePresenceOptions) {
  while (awaitsPodCIDR && !node.hasPodCIDR()) {
    logger.warn(
      "waiting for this node's pod CIDR before the first sync: detectLocalMode is NodeCIDR, and the Node object has " +
        "no spec.podCIDRs yet (kube-controller-manager assigns them with --allocate-node-cidrs)",
      { node: nodeName },
    );
    await sleep(clock, BETWEEN_REMINDERS_MS, signal);
  }
}
