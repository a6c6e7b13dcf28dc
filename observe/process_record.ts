import type { Clock } from "../platform/mod.ts";
import type { MetricReading } from "../platform/metrics/mod.ts";
import { createEventLog, type EventLog } from "./event_log.ts";
import type { LastCounts } from "./metrics.ts";
import { createStatusRecorder, type StatusRecorder } from "./status.ts";

/** Observations of a process, which outlast its runs: a changed configuration file starts another run. */
export interface ProcessRecord {
  /** When the process started, in milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly events: EventLog;
  readonly recorder: StatusRecorder;
  /** See `MetricsOptions`. */
  readonly lastCounts: LastCounts;
  /** The metrics at the end of the last run; none in the first one. */
  earlier(): readonly MetricReading[];
  endRun(metrics: readonly MetricReading[]): void;
}

/** Creates the record of a process that starts now. */
export function createProcessRecord(clock: Clock): ProcessRecord {
  const startedAtMs = clock.now();
  const events = createEventLog(clock, startedAtMs), recorder = createStatusRecorder();
  let earlier: readonly MetricReading[] = [];
  return {
    ...{ startedAtMs, events, recorder, lastCounts: new Map() },
    earlier: () => earlier,
    endRun(metrics) {
      earlier = metrics;
      events.startRun();
      recorder.startRun();
    },
  };
}
