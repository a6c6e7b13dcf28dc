import type { Configuration } from "../config/mod.ts";
import { type CanaryStatus, type NodeEvents, ownAddresses, type ProxyHealth } from "../observe/mod.ts";
import type { Canary } from "../observe/canary/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import type { SyncReport } from "../core/model/mod.ts";
import type { NodeState, Tracking } from "../core/tracking/mod.ts";
import { type Clock, FAMILIES, type Family, isLoopback, type Logger } from "../platform/mod.ts";
import type { ServedFamily } from "./served_family.ts";

/** Options of `startCanaries`. */
export interface CanariesOptions {
  readonly configuration: Pick<Configuration, "canary" | "canaryRanges">;
  readonly tracking: Pick<Tracking, "node">;
  /** Called only after the start. */
  readonly families: () => readonly ServedFamily[];
  readonly health: Pick<ProxyHealth, "setPackets">;
  readonly nodeEvents: () => Pick<NodeEvents, "packetsFlowAgain"> | undefined;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The canaries of both families. */
export interface Canaries {
  /** Places the canary of each family that has services, at the node's address. Call it when they may have changed. */
  update(): void;
  reported(report: SyncReport): void;
  /** The canaries that are placed. */
  status(): readonly CanaryStatus[];
}

/** Canaries of a proxy whose configuration asks for none. */
const NONE: Canaries = { update() {}, reported() {}, status: () => [] };

/** Starts the canaries, whose code is loaded only if the configuration asks for them. */
export async function startCanaries(options: CanariesOptions): Promise<Canaries> {
  const { configuration: { canary, canaryRanges: ranges }, tracking, families, onProblems, clock, logger, signal } =
    options;
  if (!canary.enabled) return NONE;
  const { createCanary } = await import("../observe/canary/mod.ts");
  const { intervalMs, timeoutMs } = canary;
  const started = new Map<Family, Canary>();

  const start = ({ family, serveCanary, compare, examine }: ServedFamily, range: string): Canary => {
    const onChange = observeCanary(options);
    const shared = { family, range, intervalMs, timeoutMs, compare, examine, onChange, ownAddresses };
    return createCanary({
      ...shared,
      plan: serveCanary,
      onProblems: (problems) => onProblems(`canary ${family}`, problems),
      clock,
      logger,
      signal,
    });
  };

  return {
    update() {
      for (const served of families()) {
        const { family } = served, range = ranges[family];
        if (range === undefined) continue;
        const canary = started.get(family) ?? start(served, range);
        started.set(family, canary);
        const node = tracking.node.state();
        canary.place(served.hasServices() && isUsed(node, family) ? node.nodeIPs[family] : undefined);
        if (canary.status() === undefined) options.health.setPackets(family, undefined);
      }
    },
    reported: (report) => started.get(report.family)?.reported(report),
    status: () => [...started.values()].flatMap((canary) => canary.status() ?? []),
  };
}

/** Whether the node has pods or an address of the family; a node whose Node names none may, for example, not forward it. */
function isUsed({ nodeIPs, podCIDRs }: NodeState, family: Family): boolean {
  const isNamed = (one: Family) => !isLoopback(nodeIPs[one]) || podCIDRs[one] !== undefined;
  return isNamed(family) || !FAMILIES.some(isNamed);
}

/** Returns a listener that passes the states of one canary to health and Events. */
function observeCanary({ health, nodeEvents, clock }: CanariesOptions): (status: CanaryStatus) => void {
  let failingSinceMs: number | undefined;
  return ({ family, state, sinceMs, detail }) => {
    switch (state) {
      case "waiting":
        // Another address is tried soon; what is known until then stays.
        if (failingSinceMs === undefined) health.setPackets(family, { flow: undefined });
        break;
      case "answering":
        health.setPackets(family, { flow: true });
        if (failingSinceMs !== undefined) nodeEvents()?.packetsFlowAgain(family, clock.now() - failingSinceMs);
        failingSinceMs = undefined;
        break;
      case "failing":
        failingSinceMs ??= sinceMs;
        health.setPackets(family, { flow: false, reason: detail });
        break;
      case "unusable":
        failingSinceMs = undefined;
        health.setPackets(family, undefined);
    }
  };
}
