/** Keeps one family's worker running: replaces one that dies or hangs, with backoff. */
import { describeMode } from "../backends/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener } from "../core/channel/mod.ts";
import { type Backoff, createBackoff, type Logger } from "../platform/mod.ts";
import { checkedProblems, checkedReport } from "./checked_report.ts";
import type { MemoryWatch } from "./memory_watch.ts";
import { createPacking } from "./packed_delta.ts";
import type { FromWorker, StartMessage, ToWorker } from "./protocol.ts";
import {
  createQuestions,
  type Questions,
  startWatchedWorker,
  type WatchedWorker,
  type WatchOptions,
  type WorkerHandle,
} from "./watched_worker.ts";

/** Inputs of `superviseFamily`; durations in milliseconds. */
interface SuperviseOptions extends WatchOptions<StartMessage, FromWorker, WorkerHandle> {
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

interface Supervised {
  readonly options: SuperviseOptions;
  readonly mode: ModeDescription;
  readonly logger: Logger;
  readonly backoff: Backoff;
  readonly calls: Questions<unknown>;
  worker?: WatchedWorker | undefined;
  endWork?: (() => void) | undefined;
  cancelTimer?: () => void;
  restarts: number;
  cleaning?: PromiseWithResolvers<void> | undefined;
  stopping?: PromiseWithResolvers<void>;
  keepsWorker: boolean;
  /** From `rest` to `wake`. */
  isResting: boolean;
  /** A stop was requested because the family is idle, and the worker has not stopped yet. */
  isLeaving: boolean;
}

/** Starts a family's worker, and another one whenever it dies or hangs, until it is stopped. */
export function superviseFamily(options: SuperviseOptions): FamilyLink {
  const { start, clock, memory, stopGraceMs = 700, keepGraceMs = 5_000, answerTimeoutMs = 5_000 } = options;
  const state: Supervised = {
    options,
    mode: describeMode(start.mode),
    logger: options.logger.with({ family: start.family }),
    backoff: options.backoff ?? createBackoff({ firstMs: 500, longestMs: 30_000 }),
    calls: createQuestions(clock, answerTimeoutMs),
    restarts: 0,
    ...{ keepsWorker: false, isResting: false, isLeaving: false },
  };
  const pack = createPacking();
  /** The running worker, if it takes messages. */
  const listening = () => state.isLeaving ? undefined : state.worker;

  reportHealth(state, { state: "starting" });
  launch(state);

  return {
    send(delta) {
      const { worker } = state;
      if (worker === undefined) return;
      // Its memory is watched until a sync succeeds.
      state.endWork ??= memory(worker.fail);
      worker.post({ type: "sync", delta: pack(delta) });
    },
    async call({ name, timeoutMs, checked }, request) {
      const worker = listening();
      if (worker === undefined) return undefined;
      const post = (number: number) => worker.post({ type: "call", number, name, request });
      const answer = await state.calls.ask(post, timeoutMs);
      return answer === undefined ? undefined : checked(answer);
    },
    compare: () => listening()?.post({ type: "compare" }),
    rest() {
      const { worker, isLeaving, stopping, cleaning } = state;
      if (worker === undefined || isLeaving || stopping || cleaning || !worker.beginRest()) return false;
      state.isResting = state.isLeaving = true;
      finishWork(state);
      requestStop(state, true, stopGraceMs, () => idleWorkerStopped(state));
      reportHealth(state, { state: "resting" });
      return true;
    },
    wake() {
      if (!state.isResting) return;
      state.isResting = false;
      state.logger.info("worker starts again");
      reportHealth(state, { state: "starting" });
      if (!state.isLeaving) launch(state);
    },
    cleanup() {
      if (state.cleaning) return state.cleaning.promise;
      const { promise } = state.cleaning = Promise.withResolvers<void>();
      const worker = listening();
      if (worker) worker.post({ type: "cleanup" });
      else abandonCleanup(state, "no worker is running");
      return promise;
    },
    stop({ keepWorker = false } = {}) {
      if (state.stopping) return state.stopping.promise;
      const { promise } = state.stopping = Promise.withResolvers<void>();
      state.keepsWorker = keepWorker;
      if (state.isLeaving) return promise;
      if (state.worker === undefined) finishStop(state);
      else {
        requestStop(state, keepWorker, keepWorker ? keepGraceMs : stopGraceMs, () => {
          state.logger.warn("worker did not stop in time; terminating it");
          finishStop(state);
        });
      }
      return promise;
    },
  };
}

function receive(state: Supervised, message: FromWorker): void {
  const { listener } = state.options;
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
      if (message.report.ok) {
        state.backoff.reset();
        finishWork(state);
      }
      listener.onReport(checkedReport(message.report, state.mode));
      break;
    case "problems":
      listener.onProblems(message.scope, checkedProblems(message.problems));
      break;
    case "setup-failed":
      listener.onHealth({ state: "unfit", reason: message.reason, unsupported: message.unsupported });
      break;
    case "answered":
      state.calls.answer(message.number, message.answer);
      break;
    case "cleaned":
      if (message.problem === undefined) state.cleaning?.resolve();
      else state.cleaning?.reject(new Error(message.problem));
      state.cleaning = undefined;
      break;
  }
}

function abandonCleanup(state: Supervised, reason: string): void {
  state.cleaning?.reject(new Error(`the ${state.options.start.family} rules were not all removed: ${reason}`));
  state.cleaning = undefined;
}

function reportHealth({ options }: Supervised, health: FamilyHealth): void {
  queueMicrotask(() => options.listener.onHealth(health));
}

function finishWork(state: Supervised): void {
  state.endWork?.();
  state.endWork = undefined;
}

function launch(state: Supervised): void {
  state.worker = startWatchedWorker(state.options, {
    onMessage(message) {
      if (message.type === "stopped") stopped(state);
      else if (!state.isLeaving) receive(state, message);
    },
    onFailure(reason) {
      finishWork(state);
      state.worker = undefined;
      if (state.isLeaving) idleWorkerStopped(state);
      else if (state.stopping) finishStop(state);
      else restartLater(state, reason);
    },
  });
}

function restartLater(state: Supervised, reason: string): void {
  const restarts = ++state.restarts;
  const waitMs = state.backoff.nextMs();
  state.logger.error("worker died, restarting", { reason, restarts, inMs: Math.round(waitMs) });
  abandonCleanup(state, `the worker died: ${reason}`);
  state.cancelTimer = state.options.clock.schedule(waitMs, () => launch(state));
  reportHealth(state, { state: "restarting", reason, restarts });
}

function terminate(state: Supervised): void {
  state.cancelTimer?.();
  state.worker?.terminate();
  state.worker = undefined;
}

function stopped(state: Supervised): void {
  if (state.isLeaving) return idleWorkerStopped(state);
  if (state.keepsWorker) {
    state.worker?.release();
    state.worker = undefined;
  }
  finishStop(state);
}

/** Called when a worker that was stopped because its family was idle has ended. The family may have services again. */
function idleWorkerStopped(state: Supervised): void {
  state.isLeaving = false;
  terminate(state);
  if (state.stopping) finishStop(state);
  else if (state.isResting) state.logger.info("worker ended: the family has no services");
  else launch(state);
}

function finishStop(state: Supervised): void {
  finishWork(state);
  terminate(state);
  abandonCleanup(state, "the worker was stopped");
  state.stopping?.resolve();
}

/** Requests the worker to stop, and calls `onLate` if it does not stop in time. */
function requestStop(state: Supervised, keepWorker: boolean, graceMs: number, onLate: () => void): void {
  state.worker?.unwatch();
  state.worker?.post({ type: "stop", keepWorker } satisfies ToWorker);
  state.cancelTimer = state.options.clock.schedule(graceMs, onLate);
}
