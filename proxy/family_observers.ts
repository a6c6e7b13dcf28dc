import type { Logger } from "../platform/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import {
  type ChangeFeed,
  type DriftWatch,
  type Metrics,
  type NodeEvents,
  problemsOfSync,
  problemsOfWorker,
  type ProxyHealth,
  type StatusRecorder,
} from "../observe/mod.ts";
import type { SyncTraces } from "../observe/telemetry/mod.ts";
import type { Canaries } from "./canaries.ts";
import { watchSupport } from "./family_support.ts";
import type { Traffic } from "./traffic.ts";
import type { ServedFamilyListener } from "./served_family.ts";

/** Observers of the families. */
export interface FamilyObservers {
  readonly health: ProxyHealth;
  readonly metrics: Metrics;
  readonly recorder: StatusRecorder;
  readonly problems: ProblemBoard;
  readonly feed: ChangeFeed;
  /** Undefined without an API server to record Events at. */
  readonly nodeEvents: NodeEvents | undefined;
  readonly driftWatch: DriftWatch;
  /** Undefined if traffic metrics are off. */
  readonly traffic: Pick<Traffic, "note" | "recorder"> | undefined;
  readonly canaries: Pick<Canaries, "reported">;
  /** Undefined if no traces are exported. */
  readonly traces: SyncTraces | undefined;
  readonly logger: Logger;
  /** Called when this host can serve neither family, with the reason of each. */
  readonly onNoneSupported: (reasons: string) => void;
}

/** Returns a listener that forwards the families' events to the observers. */
export function notifyObservers(
  observers: FamilyObservers,
): Omit<ServedFamilyListener, "onHealthChecks" | "onProblems"> {
  const { health, metrics, recorder, problems, feed, nodeEvents, driftWatch, traffic, canaries, logger } = observers;
  const { onNoneSupported, traces } = observers;
  const noteSupport = watchSupport(logger, onNoneSupported);

  return {
    onChange(family, changes, options, startedAtMs) {
      health.queuedUpdate(family);
      metrics.queued(family);
      feed.planned(family, changes, options);
      traces?.planned(family, changes.set.length + changes.deleted.length, startedAtMs);
      traffic?.recorder.forget(family, changes.deleted);
    },
    onSent(family, revision) {
      feed.sent(family, revision);
      traces?.sent(family, revision);
    },
    onReport(report, triggerTimesMs) {
      if (report.ok) health.updated(report.family);
      metrics.observe(report, triggerTimesMs);
      recorder.report(report, triggerTimesMs);
      feed.reported(report);
      traces?.reported(report, triggerTimesMs);
      problems.report(`sync ${report.family}`, problemsOfSync(report), { isLogged: true });
      nodeEvents?.report(report);
      driftWatch.report(report);
      canaries.reported(report);
    },
    onTraffic: (family, reading) => traffic?.note(family, reading),
    onHealth(family, state) {
      health.workerHealth(family, state);
      metrics.workerHealth(family, state);
      recorder.workerHealth(family, state);
      problems.report(`worker ${family}`, problemsOfWorker(family, state), { isLogged: true });
      nodeEvents?.workerHealth(family, state);
      noteSupport(family, state);
    },
  };
}
