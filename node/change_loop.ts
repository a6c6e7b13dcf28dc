import { type HealthCheckChanges, servicesFirst } from "../core/planning/mod.ts";
import type { NodeChange, TrackedChanges, Tracking } from "../core/tracking/mod.ts";
import type { ServiceHealth } from "../observe/mod.ts";
import type { Clock } from "../platform/mod.ts";
import type { RoundPace } from "./round_pace.ts";
import type { ServedFamily } from "./served_family.ts";

/** Creates a function that schedules a round: planning tracked changes and sending them to the families' workers. */
export function createChangeLoop(options: {
  readonly tracking: Tracking;
  readonly families: readonly ServedFamily[];
  readonly planHealthChecks: (changes: TrackedChanges) => HealthCheckChanges;
  /** Reports annotations of services that have no effect. */
  readonly reportAnnotations: (changes: TrackedChanges) => void;
  /** Opens and closes the health check node ports. */
  readonly serviceHealth: Pick<ServiceHealth, "apply">;
  readonly onNodeChange: (change: NodeChange) => void;
  /** Called in each round, once every family has planned it. */
  readonly onPlanned: (changes: TrackedChanges) => void;
  /** Called after the first round. */
  readonly onStarted: () => void;
  readonly pace: Pick<RoundPace, "delayMs" | "began">;
  readonly clock: Clock;
}): () => void {
  const { tracking, families, planHealthChecks, reportAnnotations, serviceHealth, pace, clock } = options;
  const { onNodeChange, onPlanned, onStarted } = options;
  let started = false;
  let startedAhead = false;

  /** Sends the services that the node's start depends on. Returns false if that makes no difference. */
  const startAhead = (): boolean => {
    startedAhead = true;
    const first = servicesFirst(tracking.services);
    if (first.length === 0) return false;
    for (const family of families) family.startAhead(first);
    return true;
  };

  const applyChanges = (): void => {
    if (!startedAhead && startAhead()) {
      // In a separate task, so that they are sent before everything else is planned.
      clock.schedule(0, applyChanges);
      return;
    }
    pace.began();
    const changes = tracking.take();
    if (changes.node) onNodeChange(changes.node);
    for (const family of families) {
      if (changes.node || changes.serviceRanges || !started) family.configure();
      family.apply(changes);
      if (!started) family.start();
    }
    reportAnnotations(changes);
    onPlanned(changes);
    const planned = planHealthChecks(changes);
    serviceHealth.apply(planned);
    for (const family of families) family.holdHealthChecks(planned);
    if (!started) onStarted();
    started = true;
  };

  return () => {
    clock.schedule(pace.delayMs(), applyChanges);
  };
}
