import type { FamilyHealth } from "../core/channel/mod.ts";
import { type PacketCounts, readPacketCounts } from "../core/model/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import {
  type ChangeFeed,
  type DriftWatch,
  failureOf,
  type Metrics,
  type NodeEvents,
  problemsOfSync,
  problemsOfWorker,
  type ProxyHealth,
  type StatusRecorder,
  type WorkerCounts,
} from "../observe/mod.ts";
import { FAMILIES, type Family, type Logger } from "../platform/mod.ts";
import type { RunningFeatures } from "./features.ts";
import type { FamilyTopics, ServedFamily } from "./served_family.ts";

interface FamilyObservers {
  readonly health: ProxyHealth;
  readonly metrics: Pick<Metrics, "queued" | "observe" | "workerHealth">;
  readonly recorder: StatusRecorder;
  readonly problems: ProblemBoard;
  readonly feed: Pick<ChangeFeed, "planned" | "reported">;
  /** Undefined without an API server to record Events at. */
  readonly nodeEvents: NodeEvents | undefined;
  readonly driftWatch: DriftWatch;
  readonly features: Pick<RunningFeatures, "changed" | "reported">;
  readonly logger: Logger;
  /** Called when this host can serve neither family, with the reason of each. */
  readonly onNoneSupported: (reasons: string) => void;
}

/** Passes the families' events on to the observers. */
export function observeFamilies({ planned, reported, healthChanged }: FamilyTopics, observers: FamilyObservers): void {
  const { health, metrics, recorder, problems, feed, nodeEvents, driftWatch, features, logger, onNoneSupported } =
    observers;
  const noteSupport = watchSupport(logger, onNoneSupported);

  planned.subscribe((family, changes, options, startedAtMs) => {
    health.queuedUpdate(family);
    metrics.queued(family);
    feed.planned(family, changes, options);
    features.changed(family, changes, startedAtMs);
  });
  reported.subscribe((report, triggerTimesMs) => {
    if (report.ok) health.updated(report.family);
    else health.failed(report.family, failureOf(report));
    metrics.observe(report, triggerTimesMs);
    recorder.report(report, triggerTimesMs);
    feed.reported(report);
    problems.report(`sync ${report.family}`, problemsOfSync(report), { isLogged: true });
    nodeEvents?.report(report);
    driftWatch.report(report);
    features.reported(report, triggerTimesMs);
  });
  healthChanged.subscribe((family, state) => {
    health.workerHealth(family, state);
    metrics.workerHealth(family, state);
    recorder.workerHealth(family, state);
    problems.report(`worker ${family}`, problemsOfWorker(family, state), { isLogged: true });
    nodeEvents?.workerHealth(family, state);
    noteSupport(family, state);
  });
}

/**
 * Returns a function that takes the families' health and warns about a family that this host cannot serve, once the other one
 * can be served. If neither can, it calls `onNoneSupported` instead.
 */
export function watchSupport(
  logger: Pick<Logger, "warn">,
  onNoneSupported: (reasons: string) => void,
): (family: Family, health: FamilyHealth) => void {
  const reasons = new Map<Family, string>();
  const served = new Set<Family>();
  const warned = new Set<Family>();
  return (family, state) => {
    const isUnsupported = state.state === "unfit" && state.unsupported;
    if (isUnsupported) reasons.set(family, state.reason);
    else {
      reasons.delete(family);
      warned.delete(family);
    }
    if (state.state === "ready" || state.state === "resting") served.add(family);
    else served.delete(family);
    if (reasons.size === FAMILIES.length) {
      const [one, other] = FAMILIES.map((family) => reasons.get(family)!);
      onNoneSupported(one === other ? one! : FAMILIES.map((family) => `${family}: ${reasons.get(family)}`).join("; "));
    }
    if (served.size === 0) return;
    for (const [family, reason] of reasons) {
      if (warned.has(family)) continue;
      warned.add(family);
      logger.warn("this host cannot serve an IP family, serving the other one only", { family, reason });
    }
  };
}

/** Reads the packet counters of the families that have them. */
export function packetCountsOf(families: readonly ServedFamily[]): Promise<WorkerCounts<PacketCounts>> {
  return readAll(families, (served) => served.call(readPacketCounts, undefined));
}

/** Reads the metrics of the families' relays. */
export function relayCountsOf(families: readonly ServedFamily[]): Promise<WorkerCounts> {
  return readAll(families, (served) => served.relayCounts());
}

async function readAll<T>(
  families: readonly ServedFamily[],
  read: (served: ServedFamily) => Promise<T | undefined>,
): Promise<WorkerCounts<T>> {
  const known = await Promise.all(families.map(async (served) => [served.family, await read(served)] as const));
  return Object.fromEntries(known.filter(([, value]) => value !== undefined));
}
