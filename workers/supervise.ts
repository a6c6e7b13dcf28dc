/** Keeps one family's worker running: replaces one that dies or hangs, with backoff. */
import { describeMode } from "../backends/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener } from "../core/channel/mod.ts";
import { isCommonCount, type SyncReport } from "../core/model/mod.ts";
import { isProblemCode, type Problem } from "../core/problems/mod.ts";
import {
  type Backoff,
  type Clock,
  createBackoff,
  createQuestions,
  type Logger,
  type Questions,
  type SupervisedWorker,
  superviseWorker,
  type WorkerListener,
} from "../platform/mod.ts";
import type { MemoryWatch } from "./memory_watch.ts";
import { createPacking } from "./packed_delta.ts";
import type { FamilyHandle, FromWorker, StartMessage, ToWorker } from "./protocol.ts";

/** Inputs of `superviseFamily`; durations in milliseconds. */
interface SuperviseOptions {
  readonly start: StartMessage;
  /** Starts a worker; may throw. */
  readonly spawn: (listener: WorkerListener<FromWorker>) => FamilyHandle;
  readonly clock: Clock;
  readonly listener: FamilyListener;
  readonly logger: Logger;
  /** Detects a worker that uses too much memory; shared with the other family. */
  readonly memory: MemoryWatch;
  /** The delays before a restart; half a second to half a minute by default. */
  readonly backoff?: Backoff;
  /** The timeout of an answer from the worker. */
  readonly answerTimeoutMs?: number;
}

/** The grace period for a worker to stop before it is terminated. */
const STOP_GRACE_MS = 700;
/** The same for a worker that will be used again: it may be the only one that could start another. */
const KEEP_GRACE_MS = 5_000;

interface Supervised {
  readonly options: SuperviseOptions;
  readonly mode: ModeDescription;
  readonly logger: Logger;
  readonly backoff: Backoff;
  readonly calls: Questions<unknown>;
  readonly worker: SupervisedWorker<ToWorker, FamilyHandle>;
  endWork?: (() => void) | undefined;
  cleaning?: PromiseWithResolvers<void> | undefined;
  stopping?: PromiseWithResolvers<void>;
  /** From `rest` to `wake`. */
  isResting: boolean;
  /** A stop was requested because the family is idle, and the worker has not stopped yet. */
  isLeaving: boolean;
}

/** Starts a family's worker, and another one whenever it dies or hangs, until it is stopped. */
export function superviseFamily(options: SuperviseOptions): FamilyLink {
  const { start, clock, memory, answerTimeoutMs = 5_000 } = options;
  const backoff = options.backoff ?? createBackoff({ firstMs: 500, longestMs: 30_000 });
  const worker = superviseWorker<ToWorker, FromWorker, FamilyHandle>({
    ...options,
    backoff,
    firstMessages: () => [start],
    onMessage: (message) => receive(state, message),
    onFailure: (...failure) => noteFailure(state, ...failure),
  });
  const state: Supervised = {
    options,
    mode: describeMode(start.mode),
    logger: options.logger.with({ family: start.family }),
    backoff,
    calls: createQuestions(clock, answerTimeoutMs),
    worker,
    isResting: false,
    isLeaving: false,
  };
  const pack = createPacking();
  const takesMessages = () => !state.isLeaving && worker.running() !== undefined;

  reportHealth(state, { state: "starting" });
  worker.start();

  return {
    send(delta) {
      if (worker.running() === undefined) return;
      // Its memory is watched until a sync succeeds.
      state.endWork ??= memory(worker.fail);
      worker.post({ type: "sync", delta: pack(delta) });
    },
    async call({ name, timeoutMs, checked }, request) {
      if (!takesMessages()) return undefined;
      const post = (number: number) => worker.post({ type: "call", number, name, request });
      const answer = await state.calls.ask(post, timeoutMs);
      return answer === undefined ? undefined : checked(answer);
    },
    compare: () => takesMessages() && worker.post({ type: "compare" }),
    rest() {
      const { isLeaving, stopping, cleaning } = state;
      if (isLeaving || stopping || cleaning || !worker.running()?.beginRest()) return false;
      state.isResting = state.isLeaving = true;
      finishWork(state);
      worker.stop({ type: "stop", keepWorker: true }, STOP_GRACE_MS, () => idleWorkerStopped(state));
      reportHealth(state, { state: "resting" });
      return true;
    },
    wake() {
      if (!state.isResting) return;
      state.isResting = false;
      state.logger.info("worker starts again");
      reportHealth(state, { state: "starting" });
      if (!state.isLeaving) worker.start();
    },
    cleanup() {
      if (state.cleaning) return state.cleaning.promise;
      const { promise } = state.cleaning = Promise.withResolvers<void>();
      if (takesMessages()) worker.post({ type: "cleanup" });
      else abandonCleanup(state, "no worker is running");
      return promise;
    },
    stop({ keepWorker = false } = {}) {
      if (state.stopping) return state.stopping.promise;
      const { promise } = state.stopping = Promise.withResolvers<void>();
      if (state.isLeaving) return promise;
      const onEnd = (isLate: boolean) => {
        if (isLate) state.logger.warn("worker did not stop in time; terminating it");
        finishStop(state);
      };
      const keep = keepWorker ? (handle: FamilyHandle) => handle.release() : undefined;
      worker.stop({ type: "stop", keepWorker }, keepWorker ? KEEP_GRACE_MS : STOP_GRACE_MS, onEnd, keep);
      return promise;
    },
  };
}

function receive(state: Supervised, message: FromWorker): void {
  const { listener } = state.options;
  if (message.type === "stopped") return state.worker.ended();
  if (state.isLeaving) return;
  switch (message.type) {
    case "ready":
      listener.onHealth({ state: "ready" });
      return listener.onReset();
    case "reset":
      return listener.onReset();
    case "report":
      // The worker itself retries a failed sync.
      if (message.report.ok) {
        state.backoff.reset();
        finishWork(state);
      }
      return listener.onReport(checkedReport(message.report, state.mode));
    case "problems":
      return listener.onProblems(message.scope, checkedProblems(message.problems));
    case "setup-failed":
      return listener.onHealth({ state: "unfit", reason: message.reason, unsupported: message.unsupported });
    case "answered":
      return state.calls.answer(message.number, message.answer);
    case "cleaned":
      if (message.problem === undefined) state.cleaning?.resolve();
      else state.cleaning?.reject(new Error(message.problem));
      state.cleaning = undefined;
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

function noteFailure(state: Supervised, reason: string, restarts: number, inMs: number): void {
  finishWork(state);
  state.logger.error("worker died, restarting", { reason, restarts, inMs });
  abandonCleanup(state, `the worker died: ${reason}`);
  reportHealth(state, { state: "restarting", reason, restarts });
}

/** Called when a worker that was stopped because its family was idle has ended. The family may have services again. */
function idleWorkerStopped(state: Supervised): void {
  state.isLeaving = false;
  if (state.stopping) finishStop(state);
  else if (state.isResting) state.logger.info("worker ended: the family has no services");
  else state.worker.start();
}

function finishStop(state: Supervised): void {
  finishWork(state);
  abandonCleanup(state, "the worker was stopped");
  state.stopping?.resolve();
}

/** The problems whose code is in the table: codes become labels of metrics, so a worker must not invent any. */
export function checkedProblems(problems: readonly Problem[]): readonly Problem[] {
  return problems.filter(({ code }) => isProblemCode(code));
}

/** Sanitizes a report: an unknown code becomes `sync-failed`; undeclared counts and those not finite are dropped. */
export function checkedReport(report: SyncReport, mode: Pick<ModeDescription, "counts">): SyncReport {
  const problems = report.problems.map((problem) =>
    isProblemCode(problem.code) ? problem : { ...problem, code: "sync-failed" as const }
  );
  const isDeclared = (name: string) => isCommonCount(name) || Object.hasOwn(mode.counts, name);
  const counts = Object.fromEntries(
    Object.entries(report.counts).filter(([name, value]) => isDeclared(name) && Number.isFinite(value)),
  );
  return { ...report, problems, counts };
}
