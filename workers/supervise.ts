/** Keeps one family's worker running: tells dead from busy, and starts a new one with growing waits. */
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "../core/channel/mod.ts";
import type { PacketCounts, RuleDescription } from "../core/model/mod.ts";
import { type Backoff, type Clock, createBackoff, errorText, type Logger } from "../platform/mod.ts";
import { checkedReport } from "./checked_message.ts";
import type { MemoryWatch } from "./memory_watch.ts";
import type { FromWorker, StartMessage, ToWorker } from "./protocol.ts";

/** The part of a worker that is used. */
export interface WorkerHandle {
  post(message: ToWorker): void;
  /** Ends it at once, even from an endless loop. */
  terminate(): void;
  /** Leaves it, stopped with `keepWorker`, to the next start of its family. */
  release(): void;
  /**
   * Announces that it is to end until its family has services again. Returns whether it may: `stop` with `keepWorker` and
   * `terminate` are to follow then.
   */
  beginRest(): boolean;
}

/** Who is told of a worker. */
export interface WorkerListener {
  onMessage(message: FromWorker): void;
  /** It has ended by an error, or cannot be understood any more. */
  onFailure(reason: string): void;
}

/** How a family is supervised. */
export interface SuperviseOptions {
  /** The first message to every worker. */
  readonly start: StartMessage;
  /** Starts a worker; may throw. */
  readonly spawn: (listener: WorkerListener) => WorkerHandle;
  readonly listener: FamilyListener;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Who tells that a worker takes too much memory; shared with the other family's. */
  readonly memory: MemoryWatch;
  /** The waits before a restart; from half a second to half a minute by default. */
  readonly backoff?: Backoff;
  /** How often a worker is asked whether it lives. */
  readonly pingPeriodMs?: number;
  /** After so many periods without a word it is taken for hung. */
  readonly pingsUnanswered?: number;
  /** How long a stop may take before the worker is ended from outside. */
  readonly stopGraceMs?: number;
  /** The same for one after which the worker is to be used again: there may be no other that could start a new one. */
  readonly keepGraceMs?: number;
  /** How long a question to the worker may take. */
  readonly describeTimeoutMs?: number;
}

/** Starts a family's worker, and a new one whenever it dies or hangs, until it is stopped. */
export function superviseFamily(options: SuperviseOptions): FamilyLink {
  const { start, spawn, listener, clock, memory, pingPeriodMs = 10_000, pingsUnanswered = 6, stopGraceMs = 700 } =
    options;
  const { describeTimeoutMs = 5_000, keepGraceMs = 5_000 } = options;
  const logger = options.logger.with({ family: start.family });
  const backoff = options.backoff ?? createBackoff({ firstMs: 500, longestMs: 30_000 });

  let worker: WorkerHandle | undefined;
  let failCurrent: (reason: string) => void = () => {};
  let endWork: (() => void) | undefined;
  let restarts = 0;
  let cancelTimer: (() => void) | undefined;
  let cleaning: PromiseWithResolvers<void> | undefined;
  let questions = 0;
  const descriptions = new Map<number, (rules: RuleDescription | undefined) => void>();
  const countings = new Map<number, (counts: PacketCounts | undefined) => void>();
  let stopping: PromiseWithResolvers<void> | undefined;
  let keepsWorker = false;
  /** From `rest` to `wake`. */
  let isResting = false;
  /** The worker was told to stop since the family rests, and has not stopped yet. */
  let isLeaving = false;

  const launch = () => {
    let current: WorkerHandle | undefined;
    let isOver = false;
    let silentPeriods = 0;

    const fail = (reason: string) => {
      if (isOver) return;
      isOver = true;
      workIsDone();
      current?.terminate();
      worker = undefined;
      cancelTimer?.();
      if (isLeaving) left();
      else if (stopping) ended();
      else restartLater(reason);
    };

    const keepWatch = () => {
      cancelTimer = clock.schedule(pingPeriodMs, () => {
        // Periods, not time: a host that slept, or a main isolate that was busy itself, must not blame the worker.
        if (silentPeriods >= pingsUnanswered) {
          fail(`it has not answered for ${silentPeriods * pingPeriodMs / 1000} s`);
          return;
        }
        if (silentPeriods === 0) current?.post({ type: "ping" });
        silentPeriods++;
        keepWatch();
      });
    };

    try {
      current = spawn({
        onMessage(message) {
          silentPeriods = 0;
          if (current !== undefined && worker === current) receive(message);
        },
        onFailure: fail,
      });
      current.post(start);
    } catch (error) {
      fail(`it could not be started: ${errorText(error)}`);
      return;
    }
    worker = current;
    failCurrent = fail;
    keepWatch();
  };

  const workIsDone = () => {
    endWork?.();
    endWork = undefined;
  };

  const receive = (message: FromWorker) => {
    if (isLeaving) {
      if (message.type === "stopped") left();
      return;
    }
    switch (message.type) {
      case "ready":
        listener.onHealth({ state: "ready" });
        listener.onReset();
        break;
      case "reset":
        listener.onReset();
        break;
      case "report":
        // A sync that failed is tried again without another word from here.
        if (message.report.ok) {
          backoff.reset();
          workIsDone();
        }
        listener.onReport(checkedReport(message.report));
        break;
      case "setup-failed":
        listener.onHealth({ state: "unfit", reason: message.reason, unsupported: message.unsupported });
        break;
      case "described":
        descriptions.get(message.number)?.(message.rules);
        break;
      case "counted":
        countings.get(message.number)?.(message.counts);
        break;
      case "cleaned":
        if (message.problem === undefined) cleaning?.resolve();
        else cleaning?.reject(new Error(message.problem));
        cleaning = undefined;
        break;
      case "stopped":
        if (keepsWorker) release();
        ended();
        break;
      case "pong":
      case "sibling-failed":
        break;
    }
  };

  const restartLater = (reason: string) => {
    restarts++;
    const waitMs = backoff.nextMs();
    logger.error("the worker died, a new one will be started", { reason, restarts, inMs: Math.round(waitMs) });
    abandonCleanup(`the worker died: ${reason}`);
    cancelTimer = clock.schedule(waitMs, launch);
    const health: FamilyHealth = { state: "restarting", reason, restarts };
    queueMicrotask(() => listener.onHealth(health));
  };

  const abandonCleanup = (reason: string) => {
    cleaning?.reject(new Error(`the ${start.family} rules were not all removed: ${reason}`));
    cleaning = undefined;
  };

  const release = () => {
    worker?.release();
    worker = undefined;
  };

  /** Ends the worker of a family that rests, or has rested until just now. */
  const left = () => {
    isLeaving = false;
    cancelTimer?.();
    worker?.terminate();
    worker = undefined;
    if (stopping) ended();
    else if (isResting) logger.info("worker ended: the family has no services");
    else launch();
  };

  const tell = (state: "starting" | "resting") => queueMicrotask(() => listener.onHealth({ state }));

  const ended = () => {
    cancelTimer?.();
    workIsDone();
    worker?.terminate();
    worker = undefined;
    abandonCleanup("the worker was stopped");
    stopping?.resolve();
  };

  /** Asks the worker and waits for its answer among those awaited; undefined where there is none in time. */
  const ask = <T>(
    awaited: Map<number, (answer: T | undefined) => void>,
    message: (number: number) => ToWorker,
  ): Promise<T | undefined> => {
    if (worker === undefined || isLeaving) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<T | undefined>();
    const number = ++questions;
    const cancel = clock.schedule(describeTimeoutMs, () => resolve(undefined));
    awaited.set(number, resolve);
    worker.post(message(number));
    return promise.finally(() => {
      cancel();
      awaited.delete(number);
    });
  };

  tell("starting");
  launch();

  return {
    send(delta) {
      if (worker === undefined) return;
      endWork ??= memory.begin(failCurrent);
      worker.post({ type: "sync", delta });
    },
    describe: (key) => ask(descriptions, (number) => ({ type: "describe", number, key })),
    packetCounts: () => ask(countings, (number) => ({ type: "count", number })),
    rest() {
      if (worker === undefined || isLeaving || stopping || cleaning || !worker.beginRest()) return false;
      isResting = isLeaving = true;
      workIsDone();
      cancelTimer?.();
      cancelTimer = clock.schedule(stopGraceMs, left);
      worker.post({ type: "stop", keepWorker: true });
      tell("resting");
      return true;
    },
    wake() {
      if (!isResting) return;
      isResting = false;
      logger.info("worker starts again");
      tell("starting");
      if (!isLeaving) launch();
    },
    cleanup() {
      if (cleaning) return cleaning.promise;
      cleaning = Promise.withResolvers<void>();
      const { promise } = cleaning;
      if (worker && !isLeaving) worker.post({ type: "cleanup" });
      else abandonCleanup("no worker is running");
      return promise;
    },
    stop({ keepWorker = false }: StopOptions = {}) {
      if (stopping) return stopping.promise;
      stopping = Promise.withResolvers<void>();
      keepsWorker = keepWorker;
      if (isLeaving) return stopping.promise;
      cancelTimer?.();
      if (worker) {
        worker.post({ type: "stop", keepWorker });
        cancelTimer = clock.schedule(keepWorker ? keepGraceMs : stopGraceMs, () => {
          logger.warn("worker did not stop in time; terminating it");
          ended();
        });
      } else {
        ended();
      }
      return stopping.promise;
    },
  };
}
