import type { NodeChange, NodeTracker } from "../core/tracking/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import { NODE_SCOPE, type ProxyHealth, watchNodePresence } from "../observe/mod.ts";
import type { Clock, Logger } from "../platform/mod.ts";

/** Options of `createNodeWatch`. */
export interface NodeWatchOptions {
  readonly nodeName: string;
  readonly node: NodeTracker;
  /** Whether the first sync waits for a pod CIDR (detectLocalMode NodeCIDR). */
  readonly awaitsPodCIDR: boolean;
  /** Lists the cluster's other Nodes for a message; undefined if the source has no Node objects. */
  readonly otherNodes: ((signal: AbortSignal) => Promise<string>) | undefined;
  readonly health: Pick<ProxyHealth, "setNodeEligible">;
  readonly problems: ProblemBoard;
  /** Called if the Node object is missing. */
  readonly onMissing: (message: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Reactions to the state of this node's Node object. */
export interface NodeWatch {
  /** The source has synced. */
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
      if (otherNodes !== undefined) watchNodePresence({ ...options, otherNodes });
    },
    onChange({ after, changed }) {
      setEligible();
      const detail = `Node ${nodeName} was deleted`;
      problems.report(NODE_SCOPE, after.deleted ? [{ code: "node-deleted", subject: `Node ${nodeName}`, detail }] : []);
      if (after.deleted) return;
      logger.info("read the Node object", {
        node: nodeName,
        changed: changed.join(),
        ...after.nodeIPs,
        zone: after.zone,
      });
    },
  };
}
