/** Keeps one family's worker running: replaces one that dies or hangs, with backoff. */
import { describeMode } from "../backends/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "../core/channel/mod.ts";
import { type Backoff, createBackoff, type Logger } from "../platform/mod.ts";
import { checkedProblems, checkedReport } from "./checked_report.ts";
import type { MemoryWatch } from "./memory_watch.ts";
import type { FromWorker, StartMessage, ToWorker } from "./protocol.ts";
import {
  createQuestions,
  startWatchedWorker,
  type WatchedWorker,
  type WatchOptions,
  type WorkerHandle,
} from "./watched_worker.ts";

/** Inputs of `superviseFamily`; durations in milliseconds. */
export interface SuperviseOptions extends WatchOptions<StartMessage, FromWorker, WorkerHandle> {
  readonly listener: FamilyListener;
  readonly logger: Logger;
  /** Detects a worker that uses too much memory; shared with the other family. */
  readonly memory: MemoryWatch;
  /** The delays before a restart; half a second to half a minute by default. */
  readonly backoff?: Backoff;
  /** The grace period for a worker to stop before it is terminated. */
  readonly stopGraceMs?: number;
  /** The same for a worker that will be used again: it may be the only one that could start another. */
  readonly keepGraceMs?: number;
  /** The timeout of an answer from the worker. */
  readonly answerTimeoutMs?: number;
}

/** Starts a family's worker, and another one whenever it dies or hangs, until it is stopped. */
export function superviseFamily(options: SuperviseOptions): FamilyLink {
  const { start, listener, clock, answerTimeoutMs = 5_000 } = options;
  const mode = describeMode(start.mode);
  const calls = createQuestions<unknown>(clock, answerTimeoutMs);
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
      case "problems":
        listener.onProblems(message.scope, checkedProblems(message.problems));
        break;
      case "setup-failed":
        listener.onHealth({ state: "unfit", reason: message.reason, unsupported: message.unsupported });
        break;
      case "answered":
        calls.answer(message.number, message.answer);
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
    async call({ name, timeoutMs, checked }, request) {
      const worker = lifecycle.worker();
      if (worker === undefined) return undefined;
      const post = (number: number) => worker.post({ type: "call", number, name, request });
      const answer = await calls.ask(post, timeoutMs);
      return answer === undefined ? undefined : checked(answer);
    },
    compare: () => lifecycle.worker()?.post({ type: "compare" }),
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
  /** The worker has ended, and its unfinished work is lost. */
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

/** The state of a lifecycle. */
interface LifecycleState {
  readonly options: SuperviseOptions;
  readonly events: LifecycleListener;
  readonly logger: Logger;
  readonly backoff: Backoff;
  worker?: WatchedWorker | undefined;
  endWork?: (() => void) | undefined;
  cancelTimer?: () => void;
  restarts: number;
  stopping?: PromiseWithResolvers<void>;
  keepsWorker: boolean;
  /** From `rest` to `wake`. */
  isResting: boolean;
  /** A stop was requested because the family is idle, and the worker has not stopped yet. */
  isLeaving: boolean;
}

function createLifecycle(options: SuperviseOptions, events: LifecycleListener): Lifecycle {
  const { start, memory, stopGraceMs = 700, keepGraceMs = 5_000 } = options;
  const logger = options.logger.with({ family: start.family });
  const backoff = options.backoff ?? createBackoff({ firstMs: 500, longestMs: 30_000 });
  const flags = { keepsWorker: false, isResting: false, isLeaving: false };
  const state: LifecycleState = { options, events, logger, backoff, restarts: 0, ...flags };

  reportHealth(state, { state: "starting" });
  launch(state);

  return {
    worker: () => state.isLeaving ? undefined : state.worker,
    beginWork() {
      if (state.worker) state.endWork ??= memory.begin(state.worker.fail);
      return state.worker;
    },
    noteSuccess() {
      backoff.reset();
      finishWork(state);
    },
    rest() {
      const { worker, isLeaving, stopping } = state;
      if (worker === undefined || isLeaving || stopping || !worker.beginRest()) return false;
      state.isResting = state.isLeaving = true;
      finishWork(state);
      requestStop(state, true, stopGraceMs, () => idleWorkerStopped(state));
      reportHealth(state, { state: "resting" });
      return true;
    },
    wake() {
      if (!state.isResting) return;
      state.isResting = false;
      logger.info("worker starts again");
      reportHealth(state, { state: "starting" });
      if (!state.isLeaving) launch(state);
    },
    stop({ keepWorker = false }: StopOptions = {}) {
      if (state.stopping) return state.stopping.promise;
      const { promise } = state.stopping = Promise.withResolvers<void>();
      state.keepsWorker = keepWorker;
      if (state.isLeaving) return promise;
      if (state.worker === undefined) finishStop(state);
      else {
        requestStop(state, keepWorker, keepWorker ? keepGraceMs : stopGraceMs, () => {
          logger.warn("worker did not stop in time; terminating it");
          finishStop(state);
        });
      }
      return promise;
    },
  };
}

function reportHealth({ options }: LifecycleState, health: FamilyHealth): void {
  queueMicrotask(() => options.listener.onHealth(health));
}

function finishWork(state: LifecycleState): void {
  state.endWork?.();
  state.endWork = undefined;
}

function launch(state: LifecycleState): void {
  const launched = startWatchedWorker(state.options, {
    onMessage(message) {
      if (state.worker !== launched) return;
      if (message.type === "stopped") stopped(state);
      else if (!state.isLeaving) state.events.receive(message);
    },
    onFailure(reason) {
      if (state.worker !== undefined && state.worker !== launched) return;
      finishWork(state);
      state.worker = undefined;
      state.cancelTimer?.();
      if (state.isLeaving) idleWorkerStopped(state);
      else if (state.stopping) finishStop(state);
      else restartLater(state, reason);
    },
  });
  state.worker = launched;
}

function restartLater(state: LifecycleState, reason: string): void {
  const restarts = ++state.restarts;
  const waitMs = state.backoff.nextMs();
  state.logger.error("worker died, restarting", { reason, restarts, inMs: Math.round(waitMs) });
  state.events.onGone(`the worker died: ${reason}`);
  state.cancelTimer = state.options.clock.schedule(waitMs, () => launch(state));
  reportHealth(state, { state: "restarting", reason, restarts });
}

function terminate(state: LifecycleState): void {
  state.cancelTimer?.();
  state.worker?.unwatch();
  state.worker?.terminate();
  state.worker = undefined;
}

function stopped(state: LifecycleState): void {
  if (state.isLeaving) return idleWorkerStopped(state);
  if (state.keepsWorker) {
    state.worker?.unwatch();
    state.worker?.release();
    state.worker = undefined;
  }
  finishStop(state);
}

/** Called when a worker that was stopped because its family was idle has ended. The family may have services again. */
function idleWorkerStopped(state: LifecycleState): void {
  state.isLeaving = false;
  terminate(state);
  if (state.stopping) finishStop(state);
  else if (state.isResting) state.logger.info("worker ended: the family has no services");
  else launch(state);
}

function finishStop(state: LifecycleState): void {
  finishWork(state);
  terminate(state);
  state.events.onGone("the worker was stopped");
  state.stopping?.resolve();
}

/** Requests the worker to stop, and calls `onLate` if it does not stop in time. */
function requestStop(state: LifecycleState, keepWorker: boolean, graceMs: number, onLate: () => void): void {
  state.cancelTimer?.();
  state.worker?.unwatch();
  state.worker?.post({ type: "stop", keepWorker } satisfies ToWorker);
  state.cancelTimer = state.options.clock.schedule(graceMs, onLate);
}
