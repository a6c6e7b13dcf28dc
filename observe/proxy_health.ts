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
  /** Why its worker is down; undefined if it is not. */
  readonly reason: string | undefined;
}

/** The health of the proxy, without the node's. */
export interface ProxyHealthStatus {
  readonly healthy: boolean;
  /**
   * Whether the kernel has had the rules of every family at least once since this process started; families that the host
   * cannot serve do not matter.
   */
  readonly inEffect: boolean;
  /** The latest of the families' last updates. */
  readonly lastUpdatedMs: number | undefined;
  /** Families that have synced at least once, or whose worker cannot. */
  readonly families: readonly FamilyStatus[];
}

/** Whether the proxy keeps up, and whether load balancers may send traffic to the node. */
export interface ProxyHealth {
  /** The family has an update for the kernel. */
  queuedUpdate(family: Family): void;
  /** Every update of the family is in the kernel. */
  updated(family: Family): void;
  /**
   * How the family's worker is doing. One that is down has an update pending for as long: nothing is wrong in the
   * kernel yet, but what changes from now on is not served.
   */
  workerHealth(family: Family, health: FamilyHealth): void;
  /** Whether the node is known and to stay: neither marked for deletion nor tainted by the autoscaler (KEP-3836). */
  setNodeEligible(eligible: boolean): void;
  /** What was last set; true at first. */
  nodeEligible(): boolean;
  status(): ProxyHealthStatus;
}

/** What the state is judged by. */
export interface ProxyHealthOptions {
  readonly clock: Clock;
  /** How often the kernel is compared with what it should hold: after twice that an update is overdue. */
  readonly syncPeriodMs: number;
}

interface FamilyState {
  lastUpdatedMs: number | undefined;
  /** Since when, on the monotonic clock, something is to be brought to the kernel. */
  pendingSinceMs: number | undefined;
  reason: string | undefined;
  counts: boolean;
  unsupported: boolean;
}

/**
 * The health of a proxy that has just started. As in kube-proxy's ProxyHealthServer, a family is healthy unless the
 * oldest change that it has not brought to the kernel is two sync periods old, and one that has never synced does not
 * count yet, unless its worker is known to be unable to.
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
      // A host that cannot serve a family at all is no worse for it.
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
