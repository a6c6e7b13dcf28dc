import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family } from "../core/model/mod.ts";
import type { NodeHealthStatus, PacketFlow } from "../features/mod.ts";
import {
  type HttpAnswer,
  jsonAnswer,
  route,
  type RunningServer,
  type ServerOptions,
  startServer,
} from "../platform/http/mod.ts";
import { type Clock, FAMILIES } from "../platform/mod.ts";

interface FamilyStatus {
  readonly family: Family;
  /** Wall time of its last successful sync, in milliseconds since 1970; undefined before the first. */
  readonly lastUpdatedMs: number | undefined;
  /** Whether no update is overdue, and its last sync has not failed. */
  readonly healthy: boolean;
  /** The reason why its worker is down or its last sync failed; undefined otherwise. */
  readonly reason: string | undefined;
}

interface ProxyHealthStatus extends NodeHealthStatus {
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
  /** Notes that a sync of the family failed; it counts as a pending update. */
  failed(family: Family, reason: string): void;
  /**
   * Notes the health of the family's worker. A worker that is down counts as a pending update: the kernel is still
   * correct, but later changes do not take effect.
   */
  workerHealth(family: Family, health: FamilyHealth): void;
  /** Sets whether the family's packets flow; undefined if unknown, as initially. */
  setPackets(family: Family, packets: PacketFlow | undefined): void;
  /** Sets whether the node is known and stays: neither marked for deletion nor tainted by the autoscaler (KEP-3836). */
  setNodeEligible(eligible: boolean): void;
  /** The value last set; true initially. */
  nodeEligible(): boolean;
  status(): ProxyHealthStatus;
}

interface FamilyState {
  worker: FamilyHealth;
  lastUpdatedMs?: number;
  /** The time of the oldest pending update, on the monotonic clock; undefined if there is none. */
  pendingSinceMs?: number;
  /** The error of the last sync, if it failed. */
  failure?: string;
  counts: boolean;
}

/**
 * Creates the health of a proxy that has just started, with this interval of comparisons with the kernel. As in
 * kube-proxy's ProxyHealthServer, a family is healthy unless its oldest pending update is two sync periods old. A family
 * that has never synced does not count unless its worker is known to be unable to sync.
 */
export function createProxyHealth(
  { clock, syncPeriodMs }: { readonly clock: Clock; readonly syncPeriodMs: number },
): ProxyHealth {
  const timeoutMs = 2 * syncPeriodMs;
  const created = (): FamilyState => ({ worker: { state: "starting" }, counts: false });
  const states: Readonly<Record<Family, FamilyState>> = { IPv4: created(), IPv6: created() };
  const packets = new Map<Family, PacketFlow>();
  let eligible = true;

  const isOverdue = ({ pendingSinceMs }: Pick<FamilyState, "pendingSinceMs">) =>
    pendingSinceMs !== undefined && clock.monotonic() - pendingSinceMs >= timeoutMs;

  const queuedUpdate = (family: Family) => {
    states[family].pendingSinceMs ??= clock.monotonic();
  };

  const isUnsupported = ({ worker }: FamilyState) => worker.state === "unfit" && worker.unsupported;

  return {
    queuedUpdate,
    updated(family) {
      const state = states[family];
      state.lastUpdatedMs = clock.now();
      state.pendingSinceMs = undefined;
      state.failure = undefined;
      state.counts = true;
    },
    failed(family, reason) {
      states[family].failure = reason;
      queuedUpdate(family);
    },
    workerHealth(family, health) {
      const state = states[family];
      state.worker = health;
      // A family that the host does not support does not make the proxy unhealthy.
      if (health.state !== "restarting" && health.state !== "unfit" || isUnsupported(state)) return;
      state.counts = true;
      queuedUpdate(family);
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
      const all = FAMILIES.map((family) => ({ family, ...states[family] }));
      const counting = all.filter(({ counts }) => counts);
      const families = counting.map(({ family, worker, lastUpdatedMs, failure, ...state }) => ({
        family,
        lastUpdatedMs,
        healthy: !isOverdue(state) && failure === undefined,
        reason: "reason" in worker ? worker.reason : failure,
      }));
      const { failure } = all.find((one) => one.failure !== undefined && !isUnsupported(one)) ?? {};
      const updates = families.flatMap(({ lastUpdatedMs }) => lastUpdatedMs ?? []);
      return {
        healthy: !counting.some(isOverdue),
        inEffect: all.every((one) => one.lastUpdatedMs !== undefined || isUnsupported(one)),
        ...(failure === undefined ? {} : { failure }),
        lastUpdatedMs: updates.length === 0 ? undefined : Math.max(...updates),
        ...(packets.size > 0 ? { packets: worstOf([...packets.values()]) } : {}),
        families,
      };
    },
  };
}

/** The state of the family in the worst state. */
function worstOf(packets: readonly PacketFlow[]): PacketFlow | undefined {
  return packets.find(({ flow }) => flow === false) ?? packets.find(({ flow }) => flow === undefined) ?? packets[0];
}

/** An endpoint of the health server. */
export type HealthEndpoint = "healthz" | "readyz" | "livez";

/** Go's zero time, which kube-proxy reports for a time that is not set. */
const NEVER = "0001-01-01T00:00:00Z";

/**
 * Starts the server that load balancers and the kubelet probe. `/readyz` is 503 until the first rules are in effect,
 * while the proxy is behind, and from a failed sync to the next successful one, so that a rollout stops at a proxy that never
 * read its source. `/healthz` is the same, and 503 while the node is leaving or a canary does not answer. `/livez` is 503 only
 * while the proxy is behind (KEP-3836): a restart of the proxy changes nothing about a node or its packets. With `bindAddressHardFail`, rejects if it cannot listen.
 */
export function startHealthzServer(
  options: ServerOptions & {
    readonly health: ProxyHealth;
    /** Called with every response, for metrics. */
    readonly onAnswer: (endpoint: HealthEndpoint, code: number) => void;
  },
): Promise<RunningServer> {
  const { health, clock, onAnswer } = options;
  const answerAt = (endpoint: HealthEndpoint) => (): HttpAnswer => {
    const answer = healthAnswer(health, clock, endpoint);
    onAnswer(endpoint, answer.status);
    return answer;
  };
  const routes = { "/healthz": answerAt("healthz"), "/readyz": answerAt("readyz"), "/livez": answerAt("livez") };
  return startServer("health", route(routes, "404 page not found\n"), options);
}

/**
 * Returns the fields of kube-proxy's health response, in its order. `healthy` describes the proxy without its node;
 * `lastUpdated` is the current time if the status is 200. A family whose worker is down or whose sync failed also has a `reason`. With a canary,
 * `packetsFlow` follows, and the `reason` if they do not.
 */
function healthAnswer(health: ProxyHealth, clock: Clock, endpoint: HealthEndpoint): HttpAnswer {
  const isForTraffic = endpoint === "healthz";
  const status = health.status();
  const nodeEligible = health.nodeEligible();
  const healthy = status.healthy && (status.inEffect && status.failure === undefined || endpoint === "livez");
  const packets = isForTraffic ? status.packets : undefined;
  const ok = healthy && packets?.flow !== false && (nodeEligible || !isForTraffic);
  const families = status.families.map(({ family, lastUpdatedMs, healthy, reason }) =>
    [family, { lastUpdated: timeText(lastUpdatedMs), healthy, reason }] as const
  );
  const currentTime = timeText(clock.now());
  return jsonAnswer(ok ? 200 : 503, {
    lastUpdated: ok ? currentTime : timeText(status.lastUpdatedMs),
    currentTime,
    nodeEligible: isForTraffic ? nodeEligible : undefined,
    healthy,
    packetsFlow: packets?.flow,
    reason: packets?.reason,
    status: families.length === 0 ? undefined : Object.fromEntries(families),
  });
}

function timeText(timeMs: number | undefined): string {
  return timeMs === undefined ? NEVER : new Date(timeMs).toISOString();
}
