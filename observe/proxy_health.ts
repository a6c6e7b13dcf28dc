import { type Clock, FAMILIES } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family } from "../core/model/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";

/** The health of one family. */
export interface FamilyStatus {
  readonly family: Family;
  /** Wall time of its last successful sync, in milliseconds since 1970; undefined before the first. */
  readonly lastUpdatedMs: number | undefined;
  /** Whether no update is overdue. */
  readonly healthy: boolean;
  /** The reason why its worker is down; undefined if it is not. */
  readonly reason: string | undefined;
}

/** The health of the proxy itself, regardless of its node. */
export interface ProxyHealthStatus {
  readonly healthy: boolean;
  /**
   * Whether the rules of every family took effect at least once since this process started; families that the host
   * cannot serve do not count.
   */
  readonly inEffect: boolean;
  /** The latest of the families' last updates. */
  readonly lastUpdatedMs: number | undefined;
  /** Whether packets flow, as far as canaries know; absent without a canary. */
  readonly packets?: PacketFlow;
  /** Families that have synced at least once, or whose worker is unable to. */
  readonly families: readonly FamilyStatus[];
}

/** What the canaries know. */
export interface PacketFlow {
  /** False if those of a family have stopped; undefined if a family's canary has not been tried yet. */
  readonly flow: boolean | undefined;
  /** Why they have stopped; undefined if they flow or the cause is not known yet. */
  readonly reason?: string | undefined;
}

/** Tracks whether the proxy keeps up, and whether load balancers may send traffic to the node. */
export interface ProxyHealth {
  /** Notes that the family has an update for the kernel. */
  queuedUpdate(family: Family): void;
  /** Notes that every update of the family is in the kernel. */
  updated(family: Family): void;
  /**
   * Notes the health of the family's worker. A worker that is down counts as a pending update: the kernel is still
   * correct, but later changes do not take effect.
   */
  workerHealth(family: Family, health: FamilyHealth): void;
  /** Sets what the family's canary knows; undefined if it has none, as initially. */
  setPackets(family: Family, packets: PacketFlow | undefined): void;
  /** Sets whether the node is known and stays: neither marked for deletion nor tainted by the autoscaler (KEP-3836). */
  setNodeEligible(eligible: boolean): void;
  /** The value last set; true initially. */
  nodeEligible(): boolean;
  status(): ProxyHealthStatus;
}

/** Options of `createProxyHealth`. */
export interface ProxyHealthOptions {
  readonly clock: Clock;
  /** The interval of comparisons with the kernel; an update is overdue after twice this time. */
  readonly syncPeriodMs: number;
  /** Receives overdue changes while they are; each family is a scope. */
  readonly onProblems?: ReportProblems;
  /** Ends the reports of overdue changes. */
  readonly signal?: AbortSignal;
}

interface FamilyState {
  lastUpdatedMs: number | undefined;
  /** The time of the oldest pending update, on the monotonic clock; undefined if there is none. */
  pendingSinceMs: number | undefined;
  reason: string | undefined;
  counts: boolean;
  unsupported: boolean;
  cancelTimer: (() => void) | undefined;
  isReported: boolean;
}

/**
 * Creates the health of a proxy that has just started. As in kube-proxy's ProxyHealthServer, a family is healthy unless
 * its oldest pending update is two sync periods old. A family that has never synced does not count unless its worker is
 * known to be unable to sync.
 */
export function createProxyHealth({ clock, syncPeriodMs, onProblems, signal }: ProxyHealthOptions): ProxyHealth {
  const timeoutMs = 2 * syncPeriodMs;
  const states = new Map<Family, FamilyState>(FAMILIES.map((family) => [family, {
    lastUpdatedMs: undefined,
    pendingSinceMs: undefined,
    reason: undefined,
    counts: false,
    unsupported: false,
    cancelTimer: undefined,
    isReported: false,
  }]));
  const stateOf = (family: Family) => states.get(family)!;
  const packets = new Map<Family, PacketFlow>();
  let eligible = true;

  const isOverdue = ({ pendingSinceMs }: FamilyState) =>
    pendingSinceMs !== undefined && clock.monotonic() - pendingSinceMs >= timeoutMs;

  /** Reports whether the family's changes are overdue, if that has changed. */
  const report = (family: Family) => {
    const state = stateOf(family), isProblem = state.counts && isOverdue(state);
    if (isProblem === state.isReported) return;
    state.isReported = isProblem;
    const detail = `the oldest change has waited for more than ${timeoutMs / 1000} s`;
    onProblems?.(`overdue ${family}`, isProblem ? [{ code: "changes-overdue", subject: family, detail }] : []);
  };

  const queuedUpdate = (family: Family) => {
    const state = stateOf(family);
    if (state.pendingSinceMs !== undefined) return;
    state.pendingSinceMs = clock.monotonic();
    if (!signal?.aborted) state.cancelTimer = clock.schedule(timeoutMs, () => report(family));
  };
  signal?.addEventListener("abort", () => {
    for (const { cancelTimer } of states.values()) cancelTimer?.();
  }, { once: true });

  const statusOf = (family: Family, state: FamilyState): FamilyStatus => ({
    family,
    lastUpdatedMs: state.lastUpdatedMs,
    healthy: !isOverdue(state),
    reason: state.reason,
  });

  return {
    queuedUpdate,
    updated(family) {
      const state = stateOf(family);
      state.lastUpdatedMs = clock.now();
      state.pendingSinceMs = undefined;
      state.cancelTimer?.();
      state.counts = true;
      report(family);
    },
    workerHealth(family, health) {
      const state = stateOf(family);
      state.reason = "reason" in health ? health.reason : undefined;
      state.unsupported = health.state === "unfit" && health.unsupported;
      // A family that the host does not support does not make the proxy unhealthy.
      if (health.state !== "restarting" && (health.state !== "unfit" || health.unsupported)) return;
      state.counts = true;
      queuedUpdate(family);
      report(family);
    },
    setPackets(family, flow) {
      if (flow === undefined) packets.delete(family);
      else packets.set(family, flow);
    },
    setNodeEligible(value) {
      eligible = value;
    },
    nodeEligible: () => eligible,
    status() {
      const families = [...states].filter(([, { counts }]) => counts).map(([family, state]) => statusOf(family, state));
      const updates = families.flatMap(({ lastUpdatedMs }) => lastUpdatedMs ?? []);
      return {
        healthy: families.every(({ healthy }) => healthy),
        inEffect: [...states.values()].every((one) => one.lastUpdatedMs !== undefined || one.unsupported),
        lastUpdatedMs: updates.length === 0 ? undefined : Math.max(...updates),
        ...(packets.size > 0 ? { packets: worstOf([...packets.values()]) } : {}),
        families,
      };
    },
  };
}

/** The state of the family that is worst off. */
function worstOf(packets: readonly PacketFlow[]): PacketFlow | undefined {
  return packets.find(({ flow }) => flow === false) ?? packets.find(({ flow }) => flow === undefined) ?? packets[0];
}
