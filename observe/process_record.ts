import type { Clock, Family } from "../platform/mod.ts";
import type { MetricReading } from "../platform/metrics/mod.ts";
import type { LastCounts } from "./metrics.ts";
import { createStatusRecorder, type StatusRecorder } from "./status.ts";
import type { ProblemCode } from "../core/problems/mod.ts";

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

/** Something that happened on this node. Plain data. */
export interface FeedEvent {
  /** Counted from 1. */
  readonly id: number;
  /** Grows with every new event and every change of an event, so that a reader can request what it has not seen. */
  readonly update: number;
  /** Wall time in milliseconds since 1970. */
  readonly atMs: number;
  readonly kind: "services" | "drift" | "link" | "problem" | "solved" | "configuration";
  /** `shop/cart`, `IPv4`, `https://10.0.0.1:6443`. */
  readonly subject: string;
  /** The only IP family that it concerns, if the node serves both. */
  readonly family: Family | undefined;
  /** `2 → 0 endpoints`. */
  readonly text: string;
  /** The detail of a problem that began. */
  readonly detail?: string;
  readonly tone: "good" | "warning" | "bad" | "idle";
  /** The number of endpoints in use of a service, which is undefined where the service did not exist. */
  readonly endpoints?: { readonly before: number | undefined; readonly after: number | undefined };
  /**
   * Whether a change of services is in the kernel: `overtaken` if a later change came before it was written. Undefined for
   * other kinds.
   */
  readonly effect: "waiting" | "in effect" | "refused" | "overtaken" | undefined;
  /** The time from the change until it was in effect, in milliseconds; undefined unless it is in effect. */
  readonly tookMs: number | undefined;
  /** The code of the problem that began or was solved. */
  readonly code?: ProblemCode;
}

/** The events that are still known, the oldest first. */
export interface Feed {
  /** The start of the process, in milliseconds since 1970; numbers of another start mean other events. */
  readonly startedAtMs: number;
  /** The highest `update` so far; 0 before the first. */
  readonly last: number;
  readonly events: readonly FeedEvent[];
}

/** An event that its recorder may still change, with `EventLog.change`. */
export type RecordedEvent = { -readonly [Field in keyof FeedEvent]: FeedEvent[Field] };

/** The last events of the process, which outlast its runs. */
export interface EventLog {
  record(fields: Pick<FeedEvent, "kind" | "subject" | "text" | "tone"> & Partial<FeedEvent>): RecordedEvent;
  change(event: RecordedEvent, fields: Partial<FeedEvent>): void;
  newest(): RecordedEvent | undefined;
  /** Returns the events that are new or have changed since the update of this number; all by default. */
  read(since?: number): Feed;
  /** Another run of the process begins, with a changed configuration; no change of the last one takes effect any more. */
  startRun(): void;
}

const MOST_EVENTS = 256;

/** Creates the empty log of a process that started at this time, now by default. */
export function createEventLog(clock: Clock, startedAtMs: number = clock.now()): EventLog {
  const events: RecordedEvent[] = [];
  let lastId = 0, lastUpdate = 0;

  const record: EventLog["record"] = (fields) => {
    const id = ++lastId, update = ++lastUpdate;
    const event: RecordedEvent = {
      id,
      update,
      atMs: clock.now(),
      family: undefined,
      effect: undefined,
      tookMs: undefined,
      ...fields,
    };
    events.push(event);
    if (events.length > MOST_EVENTS) events.shift();
    return event;
  };
  const change: EventLog["change"] = (event, fields) => {
    Object.assign(event, fields, { update: ++lastUpdate });
  };
  return {
    record,
    change,
    newest: () => events.at(-1),
    read: (since = 0) => ({
      startedAtMs,
      last: lastUpdate,
      events: events.filter(({ update }) => update > since).map((event) => ({ ...event })),
    }),
    startRun() {
      for (const event of events) if (event.effect === "waiting") change(event, { effect: "overtaken" });
      record({ kind: "configuration", subject: "configuration", text: "changed file applied", tone: "idle" });
    },
  };
}
