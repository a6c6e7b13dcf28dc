import type { NodeState } from "../../core/tracking/mod.ts";
import { addReadings, type Registry } from "../../platform/metrics/mod.ts";
import { type Clock, durationText, FAMILIES, type Family, isLoopback } from "../../platform/mod.ts";
import type { FeatureStatus, Node, NodeFamily, RunningFeature } from "../contract.ts";
import { type Canary, createCanary } from "./canary.ts";
import { watchDrops } from "./drops.ts";
import { type CanaryOptions, decideCanaryRanges } from "./options.ts";
import type { CanaryStatus } from "./state.ts";

/** Starts a canary for each family that has services, at the node's address. */
export function start(node: Node, { canary: options }: { readonly canary: CanaryOptions }): Promise<RunningFeature> {
  const ranges = decideCanaryRanges(options);
  const { tracking, families, health, clock } = node;
  const canaries = new Map<Family, Canary>();

  const create = (served: NodeFamily, range: string): Canary => {
    const seen = observe(node), watch = watchDrops(node, served);
    const onChange = (status: CanaryStatus) => {
      seen(status);
      watch(status);
    };
    return createCanary({ node, served, range, options, onChange });
  };
  const statuses = () => [...canaries.values()].flatMap((canary) => canary.status() ?? []);

  return Promise.resolve({
    addMetrics: (registry) => addCanaries(registry, statuses),
    planned() {
      for (const served of families) {
        const { family } = served, range = ranges[family];
        if (range === undefined) continue;
        const canary = canaries.get(family) ?? create(served, range);
        canaries.set(family, canary);
        const state = tracking.node.state();
        canary.place(served.hasServices() && isUsed(state, family) ? state.nodeIPs[family] : undefined);
        if (canary.status() === undefined) health.setPackets(family, undefined);
      }
    },
    reported: (report) => canaries.get(report.family)?.reported(report),
    familyStatus(family) {
      const status = canaries.get(family)?.status();
      return status && statusLine(status, clock);
    },
  });
}

/**
 * Whether the Node has an address or a pod CIDR of the family; true if it has none of either family. Otherwise a canary would
 * fail, for example because the node does not forward the family.
 */
function isUsed({ nodeIPs, podCIDRs }: NodeState, family: Family): boolean {
  const isNamed = (one: Family) => !isLoopback(nodeIPs[one]) || podCIDRs[one] !== undefined;
  return isNamed(family) || !FAMILIES.some(isNamed);
}

/** Returns a listener that passes the states of one canary to health and Events. */
function observe({ health, recordEvent, clock }: Node): (status: CanaryStatus) => void {
  let failingSinceMs: number | undefined;
  return ({ family, state, sinceMs, detail }) => {
    switch (state) {
      case "waiting":
        // Another address is tried soon; what is known until then stays.
        if (failingSinceMs === undefined) health.setPackets(family, { flow: undefined });
        break;
      case "answering":
        health.setPackets(family, { flow: true });
        if (failingSinceMs !== undefined) {
          const after = durationText(clock.now() - failingSinceMs);
          recordEvent("PacketsFlowing", family, `${family}: packets of services flow again, after ${after}`);
        }
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

function statusLine(data: CanaryStatus, clock: Clock): FeatureStatus {
  const { state, detail, cause, lastAnswerMs, durationMs, sinceMs } = data;
  const line = { label: "Packets", data };
  /** A duration until now in whole seconds: `1 min 5 s`. */
  const since = (ms: number) => durationText(Math.max(0, Math.round((clock.now() - ms) / 1000) * 1000));
  switch (state) {
    case "waiting":
      return { ...line, tone: "warning", words: "canary not tried yet", reason: undefined };
    case "answering":
      return { ...line, tone: "good", words: `canary answers in ${durationText(durationMs ?? 0)}`, reason: undefined };
    case "failing": {
      const heard = lastAnswerMs === undefined ? "" : `, last answer ${since(lastAnswerMs)} ago`;
      const words = `canary failing for ${since(sinceMs)}${heard}`;
      return { ...line, tone: "bad", words, reason: detail, broken: `packets do not flow (${cause})` };
    }
    case "unusable":
      return { ...line, tone: "warning", words: "canary unusable", reason: detail };
  }
}

/** Registers the metrics of the canaries. `read` returns those that are placed. */
export function addCanaries(registry: Registry, read: () => readonly CanaryStatus[]): void {
  const each = (valueOf: (status: CanaryStatus) => number | undefined) => () =>
    read().flatMap((status) => {
      const value = valueOf(status);
      return value === undefined ? [] : [[{ ip_family: status.family }, value] as const];
    });
  const seconds = (ms: number | undefined) => ms === undefined ? undefined : ms / 1000;
  const up = each(({ state }) => state === "answering" ? 1 : state === "failing" ? 0 : undefined);
  const lastAnswer = each(({ lastAnswerMs }) => seconds(lastAnswerMs));
  const duration = each(({ durationMs }) => seconds(durationMs));
  const failures = () =>
    read().flatMap(({ family, failures }) =>
      Object.entries(failures).map(([cause, count]) => [{ ip_family: family, cause }, count] as const)
    );
  const upHelp = "Whether packets of services flow on this node; absent while that is unknown";
  const lastAnswerHelp = "When the canary last answered, in seconds since 1970";
  addReadings(registry, [
    ["gauge", "sluice_canary_up", upHelp, up, "ip_family"],
    ["counter", "sluice_canary_tries_total", "Tries of the canary", each(({ tries }) => tries), "ip_family"],
    ["gauge", "sluice_canary_last_answer_timestamp_seconds", lastAnswerHelp, lastAnswer, "ip_family"],
    [
      "gauge",
      "sluice_canary_duration_seconds",
      "How long the last answered try of the canary took",
      duration,
      "ip_family",
    ],
    ["counter", "sluice_canary_failures_total", "Failed tries of the canary by cause", failures, "ip_family", "cause"],
  ]);
}
