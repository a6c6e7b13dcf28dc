import { type Clock, FAMILIES } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family } from "../core/model/mod.ts";

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
  /** Families that have synced at least once, or whose worker is unable to. */
  readonly families: readonly FamilyStatus[];
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
}

interface FamilyState {
  lastUpdatedMs: number | undefined;
  /** The time of the oldest pending update, on the monotonic clock; undefined if there is none. */
  pendingSinceMs: number | undefined;
  reason: string | undefined;
  counts: boolean;
  unsupported: boolean;
}

/**
 * Creates the health of a proxy that has just started. As in kube-proxy's ProxyHealthServer, a family is healthy unless
 * its oldest pending update is two sync periods old. A family that has never synced does not count unless its worker is
 * known to be unable to sync.
 */
export function createProxyHealth({ clock, syncPeriodMs }: ProxyHealthOptions): ProxyHealth {
  const timeoutMs = 2 * syncPeriodMs;
  const states = new Map<Family, FamilyState>(FAMILIES.map((family) => [family, {
    lastUpdatedMs: undefined,
    pendingSinceMs: undefined,
    reason: undefined,
    counts: false,
    unsupported: false,
  }]));
  const stateOf = (family: Family) => states.get(family)!;
  let eligible = true;

  const queuedUpdate = (family: Family) => {
    stateOf(family).pendingSinceMs ??= clock.monotonic();
  };

  const statusOf = (family: Family, state: FamilyState): FamilyStatus => ({
    family,
    lastUpdatedMs: state.lastUpdatedMs,
    healthy: state.pendingSinceMs === undefined || clock.monotonic() - state.pendingSinceMs < timeoutMs,
    reason: state.reason,
  });

  return {
    queuedUpdate,
    updated(family) {
      const state = stateOf(family);
      state.lastUpdatedMs = clock.now();
      state.pendingSinceMs = undefined;
      state.counts = true;
    },
    workerHealth(family, health) {
      const state = stateOf(family);
      state.reason = "reason" in health ? health.reason : undefined;
      state.unsupported = health.state === "unfit" && health.unsupported;
      // A family that the host does not support does not make the proxy unhealthy.
      if (health.state !== "restarting" && (health.state !== "unfit" || health.unsupported)) return;
      state.counts = true;
      queuedUpdate(family);
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
        families,
      };
    },
  };
}
