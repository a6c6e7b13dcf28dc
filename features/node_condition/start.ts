import type { ApiWrite } from "../../core/objects/mod.ts";
import { createBackoff, errorText, sleep, timestamp, untilAborted } from "../../platform/mod.ts";
import type { FeatureStatus, Node, RunningFeature } from "../contract.ts";

const STATUSES = ["True", "False", "Unknown"] as const;

interface ConditionState {
  readonly status: (typeof STATUSES)[number];
  /** In CamelCase, as the API requires. */
  readonly reason: string;
  readonly message: string;
}

const CONDITION_TYPE = "ServiceProxyReady";

/** After this time without a first sync, the condition says that it is awaited; a restart takes less. */
const GRACE_MS = 2_000;
const BETWEEN_READINGS_MS = 1_000;
/** As often as the kubelet's conditions, at least; the nodes of a cluster spread by a tenth. */
const HEARTBEAT_MS = 300_000, SPREAD = 0.1;
/** A message that changes while status and reason stay is written this often. */
const BETWEEN_MESSAGES_MS = 10_000;
const REFUSED_AGAIN_MS = 60_000;
const STOP_WITHIN_MS = 1_000;
const SCOPE = "node condition";

interface Written extends ConditionState {
  readonly atMs: number;
  readonly uid: string;
  /** When the status was entered, as in the API. */
  readonly since: string;
}

/** Decides the condition from the proxy's health; the Node's own health does not count. */
function conditionOf({ healthy, inEffect, failure, packets }: ReturnType<Node["health"]["status"]>): ConditionState {
  const not = (reason: string, message: string): ConditionState => ({ status: "False", reason, message });
  if (!inEffect) return not("Starting", "the rules of services have not taken effect since the proxy started");
  if (packets?.flow === false) {
    const { reason = "packets of services do not flow; the cause is being looked for" } = packets;
    return not("PacketsNotFlowing", reason);
  }
  if (failure !== undefined) return not("SyncFailed", `the kernel could not be read or written: ${failure}`);
  if (!healthy) return not("ChangesOverdue", "changes of services have waited for two sync periods");
  if (packets !== undefined && !packets.flow) return not("CanaryNotTried", "the canary has not been tried yet");
  const message = `the rules of all services are in effect${packets === undefined ? "" : ", and packets flow"}`;
  return { status: "True", reason: "ServicesInEffect", message };
}

/** Writes the condition at each change and every five minutes, unless the source has no Nodes with conditions. */
export function start(
  { name, api, tracking, health, reportProblems, clock, logger, signal }: Node,
): Promise<RunningFeature | undefined> {
  if (api === undefined) return Promise.resolve(undefined);
  let written: Written | undefined;

  /** The condition that an earlier run has written to this Node; undefined if there is none, or it may not be read. */
  const earlier = async () => {
    try {
      return conditionIn(await api.readNode(signal));
    } catch (error) {
      if (!api.isRefusal(error)) throw error;
    }
  };

  const write = async (state: ConditionState, uid: string, until: AbortSignal) => {
    const before = written?.uid === uid ? written : await earlier();
    const now = timestamp(clock.now());
    const since = before?.status === state.status ? before.since : now;
    await api.send(requestOf(name, state, now, since), until);
    written = { ...state, atMs: clock.monotonic(), uid, since };
  };

  const run = async () => {
    const startedMs = clock.monotonic();
    const backoff = createBackoff({ firstMs: BETWEEN_READINGS_MS, longestMs: 30_000 });
    let heartbeatMs = HEARTBEAT_MS;
    for (;; await sleep(clock, BETWEEN_READINGS_MS, signal)) {
      const state = conditionOf(health.status()), uid = tracking.node.uid();
      if (uid === undefined) continue;
      const isStarting = written === undefined && state.status !== "True";
      if (isStarting && clock.monotonic() - startedMs < GRACE_MS) continue;
      const isSameNode = written?.uid === uid;
      if (written && isSameNode && !isDue(state, written, clock.monotonic(), heartbeatMs)) continue;
      heartbeatMs = HEARTBEAT_MS * (1 - SPREAD + 2 * SPREAD * Math.random());
      try {
        await write(state, uid, signal);
        reportProblems(SCOPE, []);
        backoff.reset();
      } catch (error) {
        signal.throwIfAborted();
        const isRefused = api.isRefusal(error), detail = errorText(error);
        if (isRefused) {
          reportProblems(SCOPE, [{ code: "node-condition-refused", subject: `Node ${name}`, detail }]);
        } else logger.debug("node condition not written, retrying", { reason: detail });
        await sleep(clock, isRefused ? REFUSED_AGAIN_MS : backoff.nextMs(), signal);
      }
    }
  };
  untilAborted(run(), signal);

  return Promise.resolve({
    status: () => statusLine(written),
    /** Writes that the proxy has stopped; resolves when that is written, refused, or late. */
    async stopped() {
      // Nothing was ever written: the API server refuses it, or was never reached.
      if (written === undefined) return;
      const late = new AbortController();
      const cancel = clock.schedule(
        STOP_WITHIN_MS,
        () => late.abort(new Error("the API server did not answer in time")),
      );
      const message = "the proxy has stopped; its rules stay, and changes of services are not applied";
      await write({ status: "Unknown", reason: "Stopped", message }, written.uid, late.signal).catch((error) => {
        logger.debug("node condition not written at the end", { reason: errorText(error) });
      });
      cancel();
    },
  });
}

function statusLine(written: Written | undefined): FeatureStatus {
  const line = { label: "Condition", data: written };
  if (written === undefined) {
    return { ...line, tone: "warning", words: `${CONDITION_TYPE} is not written yet`, reason: undefined };
  }
  const { status, reason, message } = written;
  const words = `${CONDITION_TYPE} is ${status} (${reason})`;
  return {
    ...line,
    tone: status === "True" ? "good" : "warning",
    words,
    reason: status === "True" ? undefined : message,
  };
}

function isDue(state: ConditionState, written: Written, nowMs: number, heartbeatMs: number): boolean {
  const agoMs = nowMs - written.atMs;
  if (state.status !== written.status || state.reason !== written.reason) return true;
  return agoMs >= heartbeatMs || state.message !== written.message && agoMs >= BETWEEN_MESSAGES_MS;
}

/** The condition in a Node's JSON. Like the kubelet, a proxy that restarts keeps the time of the last transition. */
function conditionIn(node: unknown): Pick<Written, "status" | "since"> | undefined {
  const { status } = node as { readonly status?: { readonly conditions?: readonly Record<string, unknown>[] } };
  const found = status?.conditions?.find(({ type }) => type === CONDITION_TYPE);
  const since = found?.lastTransitionTime, current = STATUSES.find((one) => one === found?.status);
  return current !== undefined && typeof since === "string" ? { status: current, since } : undefined;
}

/** A strategic merge patch, which leaves the conditions of other programs alone: they are merged by their type. */
function requestOf(nodeName: string, state: ConditionState, now: string, since: string): ApiWrite {
  const condition = { type: CONDITION_TYPE, ...state, lastHeartbeatTime: now, lastTransitionTime: since };
  return {
    verb: "patch",
    resource: "nodes/status",
    path: `/api/v1/nodes/${encodeURIComponent(nodeName)}/status`,
    object: { status: { conditions: [condition] } },
    patch: "strategic",
  };
}
