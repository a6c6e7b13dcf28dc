/** Keeps one family's worker running: replaces one that dies or hangs, with backoff. */
import { describeMode } from "../backends/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "../core/channel/mod.ts";
import type { PacketCounts, RuleDescription } from "../core/model/mod.ts";
import { type Backoff, createBackoff, type Logger } from "../platform/mod.ts";
import { checkedReport } from "./checked_message.ts";
import type { MemoryWatch } from "./memory_watch.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";
import { createQuestions } from "./questions.ts";
import { startWatchedWorker, type WatchedWorker, type WatchOptions } from "./watched_worker.ts";

/** Inputs of `superviseFamily`; durations in milliseconds. */
export interface SuperviseOptions extends WatchOptions {
  readonly listener: FamilyListener;
  readonly logger: Logger;
  /** Reports a worker that takes too much memory; shared with the other family. */
  readonly memory: MemoryWatch;
  /** The waits before a restart; from half a second to half a minute by default. */
  readonly backoff?: Backoff;
  /** How long a worker may take to stop before it is terminated. */
  readonly stopGraceMs?: number;
  /** The same for a worker that will be used again: it may be the only one that could start another. */
  readonly keepGraceMs?: number;
  /** How long to wait for an answer from the worker. */
  readonly answerTimeoutMs?: number;
}

/** Starts a family's worker, and another one whenever it dies or hangs, until it is stopped. */
export function superviseFamily(options: SuperviseOptions): FamilyLink {
  const { start, listener, clock, answerTimeoutMs = 5_000 } = options;
  const mode = describeMode(start.mode);
  const descriptions = createQuestions<RuleDescription>(clock, answerTimeoutMs);
  const counts = createQuestions<PacketCounts>(clock, answerTimeoutMs);
  let cleaning: PromiseWithResolvers<void> | undefined;

  const abandonCleanup = (reason: string) => {
    cleaning?.reject(new Error(`the ${start.family} rules were not all removed: ${reason}`));
    cleaning = undefined;
  };

  const receive = (message: FromWorker) => {
    switch (message.type) {
      case "ready":
        listener.onHealth({ state: "ready" });
        listener.onReset();
        break;
      case "reset":
        listener.onReset();
        break;
      case "report":
        // The worker itself retries a failed sync.
        if (message.report.ok) lifecycle.noteSuccess();
        listener.onReport(checkedReport(message.report, mode));
        break;
      case "setup-failed":
        listener.onHealth({ state: "unfit", reason: message.reason, unsupported: message.unsupported });
        break;
      case "described":
        descriptions.answer(message.number, message.rules);
        break;
      case "counted":
        counts.answer(message.number, message.counts);
        break;
      case "cleaned":
        if (message.problem === undefined) cleaning?.resolve();
        else cleaning?.reject(new Error(message.problem));
        cleaning = undefined;
        break;
      case "stopped":
      case "restart-needed":
      case "pong":
      case "sibling-failed":
        break;
    }
  };

  const lifecycle = createLifecycle(options, { receive, onGone: abandonCleanup });

  return {
    send(delta) {
      lifecycle.beginWork()?.post({ type: "sync", delta });
    },
    async describe(key) {
      const worker = lifecycle.worker();
      return worker && await descriptions.ask((number) => worker.post({ type: "describe", number, key }));
    },
    async packetCounts() {
      const worker = lifecycle.worker();
      return worker && await counts.ask((number) => worker.post({ type: "count", number }));
    },
    rest: () => cleaning === undefined && lifecycle.rest(),
    wake: () => lifecycle.wake(),
    cleanup() {
      if (cleaning) return cleaning.promise;
      cleaning = Promise.withResolvers<void>();
      const { promise } = cleaning, worker = lifecycle.worker();
      if (worker) worker.post({ type: "cleanup" });
      else abandonCleanup("no worker is running");
      return promise;
    },
    stop: (stopOptions) => lifecycle.stop(stopOptions),
  };
}

/** Receives the events of a family's worker lifecycle. */
interface LifecycleListener {
  /** A message from the running worker, except `stopped`. */
  receive(message: FromWorker): void;
  /** The worker is gone, and its unfinished work with it. */
  onGone(reason: string): void;
}

/** Runs a family's workers, one at a time. */
interface Lifecycle {
  /** The running worker that takes messages, if there is one. */
  worker(): Pick<WatchedWorker, "post"> | undefined;
  /** The same, for a message that starts work: the worker's memory is watched until a sync succeeds. */
  beginWork(): Pick<WatchedWorker, "post"> | undefined;
  /** A sync succeeded: ends the memory watch and resets the backoff. */
  noteSuccess(): void;
  rest(): boolean;
  wake(): void;
  stop(options?: StopOptions): Promise<void>;
}

function createLifecycle(options: SuperviseOptions, { receive, onGone }: LifecycleListener): Lifecycle {
  const { start, listener, clock, memory, stopGraceMs = 700, keepGraceMs = 5_000 } = options;
  const logger = options.logger.with({ family: start.family });
  const backoff = options.backoff ?? createBackoff({ firstMs: 500, longestMs: 30_000 });
  let worker: WatchedWorker | undefined;
  let endWork: (() => void) | undefined;
  let cancelTimer: (() => void) | undefined;
  let restarts = 0;
  let stopping: PromiseWithResolvers<void> | undefined;
  let keepsWorker = false;
  /** From `rest` to `wake`. */
  let isResting = false;
  /** A stop was requested because the family rests, and the worker has not stopped yet. */
  let isLeaving = false;

  const reportHealth = (health: FamilyHealth) => queueMicrotask(() => listener.onHealth(health));

  const finishWork = () => {
    endWork?.();
    endWork = undefined;
  };

  const launch = () => {
    const launched = startWatchedWorker(options, {
      onMessage(message) {
        if (worker !== launched) return;
        if (message.type === "stopped") stopped();
        else if (!isLeaving) receive(message);
      },
      onFailure(reason) {
        if (worker !== undefined && worker !== launched) return;
        finishWork();
        worker = undefined;
        cancelTimer?.();
        if (isLeaving) left();
        else if (stopping) ended();
        else restartLater(reason);
      },
    });
    worker = launched;
  };

  const restartLater = (reason: string) => {
    restarts++;
    const waitMs = backoff.nextMs();
    logger.error("worker died, restarting", { reason, restarts, inMs: Math.round(waitMs) });
    onGone(`the worker died: ${reason}`);
    cancelTimer = clock.schedule(waitMs, launch);
    reportHealth({ state: "restarting", reason, restarts });
  };

  const terminate = () => {
    cancelTimer?.();
    worker?.unwatch();
    worker?.terminate();
    worker = undefined;
  };

  const stopped = () => {
    if (isLeaving) return left();
    if (keepsWorker) {
      worker?.unwatch();
      worker?.release();
      worker = undefined;
    }
    ended();
  };

  /** Called when the worker of a family that rests, or was resting until now, has stopped. */
  const left = () => {
    isLeaving = false;
    terminate();
    if (stopping) ended();
    else if (isResting) logger.info("worker ended: the family has no services");
    else launch();
  };

  const ended = () => {
    finishWork();
    terminate();
    onGone("the worker was stopped");
    stopping?.resolve();
  };

  /** Asks the worker to stop, and calls `onLate` if it does not in time. */
  const requestStop = (from: WatchedWorker, keepWorker: boolean, graceMs: number, onLate: () => void) => {
    cancelTimer?.();
    from.unwatch();
    from.post({ type: "stop", keepWorker } satisfies ToWorker);
    cancelTimer = clock.schedule(graceMs, onLate);
  };

  reportHealth({ state: "starting" });
  launch();

  return {
    worker: () => isLeaving ? undefined : worker,
    beginWork() {
      if (worker) endWork ??= memory.begin(worker.fail);
      return worker;
    },
    noteSuccess() {
      backoff.reset();
      finishWork();
    },
    rest() {
      if (worker === undefined || isLeaving || stopping || !worker.beginRest()) return false;
      isResting = isLeaving = true;
      finishWork();
      requestStop(worker, true, stopGraceMs, left);
      reportHealth({ state: "resting" });
      return true;
    },
    wake() {
      if (!isResting) return;
      isResting = false;
      logger.info("worker starts again");
      reportHealth({ state: "starting" });
      if (!isLeaving) launch();
    },
    stop({ keepWorker = false }: StopOptions = {}) {
      if (stopping) return stopping.promise;
      stopping = Promise.withResolvers<void>();
      keepsWorker = keepWorker;
      if (isLeaving) return stopping.promise;
      if (worker === undefined) ended();
      else {
        requestStop(worker, keepWorker, keepWorker ? keepGraceMs : stopGraceMs, () => {
          logger.warn("worker did not stop in time; terminating it");
          ended();
        });
      }
      return stopping.promise;
    },
  };
}
