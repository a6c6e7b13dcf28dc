/** Keeps a family's relay worker running: replaces one that dies or hangs, with backoff. */
import {
  type FamilyDelta,
  readTraffic,
  type RelayPorts,
  type SyncProblem,
  type TrafficReading,
} from "../core/model/mod.ts";
import {
  type Backoff,
  type ClockAndLogger,
  createBackoff,
  createQuestions,
  type Family,
  type Level,
  type Questions,
  superviseWorker,
  type WorkerHandle,
  type WorkerListener,
} from "../platform/mod.ts";
import type { RelayCounts, RelayPlacement } from "../relay/mod.ts";
import type { RelaySettings } from "../core/channel/mod.ts";

/** The first message: starts the relay. */
export interface RelayStart {
  readonly type: "start";
  readonly family: Family;
  readonly placement: RelayPlacement;
  readonly settings: RelaySettings;
  readonly logLevel: Level;
  readonly logFormat: "text" | "json";
}

/** A message to a relay worker. */
export type ToRelay =
  | RelayStart
  /** Apply a delta; answered with `applied` of its revision. */
  | { readonly type: "apply"; readonly delta: FamilyDelta }
  /** Answered with `counts` of the same number. */
  | { readonly type: "counts"; readonly number: number }
  /** Answered with `traffic` of the same number. */
  | { readonly type: "traffic"; readonly number: number }
  /** Close all listeners, wait a little for open connections, then end; answered with `stopped`. */
  | { readonly type: "stop" }
  /** Answered with `pong`. */
  | { readonly type: "ping" };

/** A message of a relay worker. */
export type FromRelay =
  | RelayApplied
  | { readonly type: "counts"; readonly number: number; readonly counts: RelayCounts }
  | { readonly type: "traffic"; readonly number: number; readonly reading: TrafficReading | undefined }
  | { readonly type: "stopped" }
  | { readonly type: "pong" };

/** The result of a delta. */
export interface RelayApplied {
  readonly type: "applied";
  readonly revision: number;
  /** The ports of each service port of the delta's `set`, in its order; undefined if the relay does not serve it. */
  readonly ports: readonly (RelayPorts | undefined)[];
  /** The service ports without a listener. */
  readonly problems: readonly SyncProblem[];
  /** Whether a service port outside the delta has got a listener that it lacked before. */
  readonly recovered: boolean;
}

/** Receives the events of a relay worker. */
export interface RelayListener {
  onApplied(applied: RelayApplied): void;
  /** The worker died, and its connections with it. */
  onLost(reason: string, restarts: number): void;
  /** A new worker has started in its place; it needs a whole state. */
  onRestarted(): void;
}

/** A family's relay, in a worker of its own that is restarted whenever it fails. */
export interface RelayWorker {
  /** Replaces the listener; without one, events are ignored. */
  listen(listener: RelayListener | undefined): void;
  /** Sends a delta; lost while the worker restarts. The first one must be a whole state. */
  apply(delta: FamilyDelta): void;
  /** The relay's metrics; undefined if the worker does not answer. */
  counts(): Promise<RelayCounts | undefined>;
  /** The traffic since the last call; undefined if none is counted or the worker does not answer. */
  traffic(): Promise<TrafficReading | undefined>;
  /** Lets open connections end within the relay's grace, then ends the worker. */
  stop(): Promise<void>;
}

const ANSWER_TIMEOUT_MS = 5_000;
/** How long the worker may take to stop before it is terminated. */
const STOP_GRACE_MS = 7_000;

interface RelayWorkerOptions extends ClockAndLogger {
  readonly start: RelayStart;
  readonly spawn: (listener: WorkerListener<FromRelay>) => WorkerHandle<ToRelay>;
  /** The delays before a restart. */
  readonly backoff?: Backoff;
}

/** Starts a family's relay worker. */
export function startRelayWorker({ start, spawn, clock, ...options }: RelayWorkerOptions): RelayWorker {
  const backoff = options.backoff ?? createBackoff({ firstMs: 100, longestMs: 30_000 });
  const logger = options.logger.with({ family: start.family });
  const counts = createQuestions<RelayCounts>(clock, ANSWER_TIMEOUT_MS);
  const traffic = createQuestions<TrafficReading>(clock, ANSWER_TIMEOUT_MS);
  let listener: RelayListener | undefined;
  let stopped: Promise<void> | undefined;

  const worker = superviseWorker<ToRelay, FromRelay, WorkerHandle<ToRelay>>({
    ...{ spawn, clock, backoff },
    firstMessages: () => [start],
    onMessage(message) {
      switch (message.type) {
        case "stopped":
          return worker.ended();
        case "counts":
          return counts.answer(message.number, message.counts);
        case "traffic":
          return traffic.answer(message.number, readTraffic.checked(message.reading));
        case "applied":
          backoff.reset();
          listener?.onApplied(message);
      }
    },
    onFailure(reason, restarts, inMs) {
      logger.error("relay died, restarting", { reason, restarts, inMs });
      queueMicrotask(() => listener?.onLost(reason, restarts));
    },
    onRestarted: () => listener?.onRestarted(),
  });
  const ask = async <T>(type: "counts" | "traffic", questions: Questions<T>) =>
    worker.running() && await questions.ask((number) => worker.post({ type, number }));
  worker.start();
  return {
    listen(next) {
      listener = next;
    },
    apply: (delta) => worker.post({ type: "apply", delta }),
    counts: () => ask("counts", counts),
    traffic: () => ask("traffic", traffic),
    stop: () => stopped ??= new Promise((resolve) => worker.stop({ type: "stop" }, STOP_GRACE_MS, () => resolve())),
  };
}
