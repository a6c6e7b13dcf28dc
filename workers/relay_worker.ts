/** Keeps a family's relay worker running: replaces one that dies or hangs, with backoff. */
import {
  type FamilyDelta,
  readTraffic,
  type RelayPorts,
  type SyncProblem,
  type TrafficReading,
} from "../core/model/mod.ts";
import { type Backoff, type Clock, createBackoff, type Family, type Level, type Logger } from "../platform/mod.ts";
import type { RelayFigures, RelayPlacement } from "../relay/mod.ts";
import {
  createQuestions,
  startWatchedWorker,
  type Watchable,
  type Watched,
  type WorkerListener,
} from "./watched_worker.ts";
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
  /** Answered with `figures` of the same number. */
  | { readonly type: "figures"; readonly number: number }
  /** Answered with `traffic` of the same number. */
  | { readonly type: "traffic"; readonly number: number }
  /** Close all listeners, wait a little for open connections, then end; answered with `stopped`. */
  | { readonly type: "stop" }
  /** Answered with `pong`. */
  | { readonly type: "ping" };

/** A message of a relay worker. */
export type FromRelay =
  | RelayApplied
  | { readonly type: "figures"; readonly number: number; readonly figures: RelayFigures }
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
  figures(): Promise<RelayFigures | undefined>;
  /** The traffic since the last call; undefined if none is counted or the worker does not answer. */
  traffic(): Promise<TrafficReading | undefined>;
  /** Lets open connections end within the relay's grace, then ends the worker. */
  stop(): Promise<void>;
}

const ANSWER_TIMEOUT_MS = 5_000;

/** Starts a family's relay worker. */
export function startRelayWorker(options: {
  readonly start: RelayStart;
  readonly spawn: (listener: WorkerListener<FromRelay>) => Watchable<ToRelay>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The delays before a restart. */
  readonly backoff?: Backoff;
  /** How long the worker may take to stop before it is terminated, in milliseconds. */
  readonly stopGraceMs?: number;
}): RelayWorker {
  const { start, clock, stopGraceMs = 7_000 } = options;
  const logger = options.logger.with({ family: start.family });
  const backoff = options.backoff ?? createBackoff({ firstMs: 100, longestMs: 30_000 });
  const questions = createQuestions<RelayFigures>(clock, ANSWER_TIMEOUT_MS);
  const trafficQuestions = createQuestions<TrafficReading>(clock, ANSWER_TIMEOUT_MS);
  let listener: RelayListener | undefined;
  let worker: (Watchable<ToRelay> & Watched) | undefined;
  let cancelTimer: (() => void) | undefined;
  let stopping: PromiseWithResolvers<void> | undefined;
  let restarts = 0;

  const ended = () => {
    cancelTimer?.();
    worker?.terminate();
    worker = undefined;
    stopping?.resolve();
  };

  const receive = (message: FromRelay) => {
    if (message.type === "stopped") ended();
    else if (message.type === "figures") questions.answer(message.number, message.figures);
    else if (message.type === "traffic") {
      trafficQuestions.answer(message.number, readTraffic.checked(message.reading));
    } else if (message.type === "applied") {
      backoff.reset();
      listener?.onApplied(message);
    }
  };

  const restartLater = (reason: string) => {
    const waitMs = backoff.nextMs();
    restarts++;
    logger.error("relay died, restarting", { reason, restarts, inMs: Math.round(waitMs) });
    cancelTimer = clock.schedule(waitMs, () => {
      launch();
      if (worker) listener?.onRestarted();
    });
    queueMicrotask(() => listener?.onLost(reason, restarts));
  };

  const launch = () => {
    worker = startWatchedWorker<RelayStart, FromRelay, Watchable<ToRelay>>(options, {
      onMessage: receive,
      onFailure(reason) {
        worker = undefined;
        if (stopping) ended();
        else restartLater(reason);
      },
    });
  };

  launch();
  return {
    listen(replaced) {
      listener = replaced;
    },
    apply: (delta) => worker?.post({ type: "apply", delta }),
    figures: async () => worker && await questions.ask((number) => worker?.post({ type: "figures", number })),
    traffic: async () => worker && await trafficQuestions.ask((number) => worker?.post({ type: "traffic", number })),
    stop() {
      if (stopping) return stopping.promise;
      const { promise } = stopping = Promise.withResolvers<void>();
      cancelTimer?.();
      if (worker === undefined) ended();
      else {
        worker.unwatch();
        worker.post({ type: "stop" });
        cancelTimer = clock.schedule(stopGraceMs, ended);
      }
      return promise;
    },
  };
}
