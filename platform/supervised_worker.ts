/** Keeps a worker running: pings it, and replaces one that dies or hangs, with backoff. */
import type { Clock } from "./clock.ts";
import { errorText } from "./log.ts";
import type { Backoff } from "./retry.ts";

/** A worker that takes messages of type `To`. */
export interface WorkerHandle<To> {
  /** A worker answers `ping` with `pong`. */
  post(message: To | { readonly type: "ping" }): void;
  /** Ends it at once, even in an endless loop. */
  terminate(): void;
}

/** Receives the messages and the failure of a worker. */
export interface WorkerListener<From> {
  onMessage(message: From): void;
  /** The worker ended with an error, or sent a message that cannot be read. */
  onFailure(reason: string): void;
}

const PING_PERIOD_MS = 10_000;
/** After this many periods without a message, a worker counts as hung. */
const PINGS_UNANSWERED = 6;

interface SupervisionOptions<To, From, Handle extends WorkerHandle<To>> {
  /** Returns the first messages to a worker that has just been started. */
  readonly firstMessages: () => readonly To[];
  /** Starts a worker; may throw. The listener is not called before it has returned. */
  readonly spawn: (listener: WorkerListener<From>) => Handle;
  readonly clock: Clock;
  readonly backoff: Backoff;
  onMessage(message: From): void;
  /** The worker died, hung or could not be started; another one starts in `inMs` milliseconds. */
  onFailure(reason: string, restarts: number, inMs: number): void;
  /** A worker has started in place of one that failed. */
  onRestarted?(): void;
}

/** A worker and those that replace it. */
export interface SupervisedWorker<To, Handle> {
  /** Starts the first worker, or another one after the end of the last. */
  start(): void;
  running(): Handle | undefined;
  /** Sends a message to the running worker; dropped if there is none. */
  post(message: To): void;
  /** Terminates the running worker, and restarts it, as one that failed. */
  fail(reason: string): void;
  /**
   * Sends a last message and terminates the worker once it has `ended`, has died, or `graceMs` milliseconds have passed; none
   * is started after it. `onEnd` is called once. A worker that ends in time is given to `keep` instead of terminated.
   */
  stop(message: To, graceMs: number, onEnd: (isLate: boolean) => void, keep?: (handle: Handle) => void): void;
  /** The worker has said that it ended; without a stop, it has failed. */
  ended(): void;
  /** Terminates the worker and starts no other. */
  terminate(): void;
}

interface State<To, From, Handle extends WorkerHandle<To>> {
  readonly options: SupervisionOptions<To, From, Handle>;
  handle: Handle | undefined;
  silentPeriods: number;
  restarts: number;
  /** The stop in progress, until the worker has ended. */
  stopping:
    | { readonly onEnd: (isLate: boolean) => void; readonly keep?: ((handle: Handle) => void) | undefined }
    | undefined;
  /** Cancels the next ping, the restart or the end of the grace period: only one of them is due. */
  cancelTimer(): void;
}

/** Prepares the supervision of a worker, which `start` begins. */
export function superviseWorker<To, From, Handle extends WorkerHandle<To>>(
  options: SupervisionOptions<To, From, Handle>,
): SupervisedWorker<To, Handle> {
  const state: State<To, From, Handle> = {
    options,
    handle: undefined,
    silentPeriods: 0,
    restarts: 0,
    stopping: undefined,
    cancelTimer() {},
  };
  return {
    start: () => launch(state),
    running: () => state.handle,
    post: (message) => state.handle?.post(message),
    fail: (reason) => state.handle && fail(state, reason),
    stop(message, graceMs, onEnd, keep) {
      state.cancelTimer();
      if (state.handle === undefined) return onEnd(false);
      state.stopping = { onEnd, keep };
      state.handle.post(message);
      state.cancelTimer = options.clock.schedule(graceMs, () => finish(state, true));
    },
    ended() {
      const { handle, stopping } = state;
      if (stopping === undefined) return handle && fail(state, "ended without a request");
      if (handle && stopping.keep) {
        state.handle = undefined;
        stopping.keep(handle);
      }
      finish(state, false);
    },
    terminate: () => terminate(state),
  };
}

function launch<To, From, Handle extends WorkerHandle<To>>(state: State<To, From, Handle>): void {
  const { spawn, firstMessages, onMessage } = state.options;
  let handle: Handle;
  try {
    handle = spawn({
      onMessage(message) {
        if (state.handle !== handle) return;
        state.silentPeriods = 0;
        onMessage(message);
      },
      onFailure: (reason) => state.handle === handle && fail(state, reason),
    });
    state.handle = handle;
    state.silentPeriods = 0;
    for (const message of firstMessages()) handle.post(message);
  } catch (error) {
    return fail(state, `cannot start: ${errorText(error)}`);
  }
  ping(state, handle);
}

/** Counts periods, not time: a suspended host or a busy main isolate must not count against the worker. */
function ping<To, From, Handle extends WorkerHandle<To>>(state: State<To, From, Handle>, handle: Handle): void {
  state.cancelTimer = state.options.clock.schedule(PING_PERIOD_MS, () => {
    if (state.silentPeriods >= PINGS_UNANSWERED) {
      return fail(state, `no answer for ${state.silentPeriods * PING_PERIOD_MS / 1000} s`);
    }
    if (state.silentPeriods === 0) handle.post({ type: "ping" });
    state.silentPeriods++;
    ping(state, handle);
  });
}

function fail<To, From, Handle extends WorkerHandle<To>>(state: State<To, From, Handle>, reason: string): void {
  if (state.stopping) return finish(state, false);
  terminate(state);
  const { clock, backoff, onFailure, onRestarted } = state.options;
  const waitMs = backoff.nextMs();
  state.cancelTimer = clock.schedule(waitMs, () => {
    launch(state);
    if (state.handle) onRestarted?.();
  });
  onFailure(reason, ++state.restarts, Math.round(waitMs));
}

function finish<To, From, Handle extends WorkerHandle<To>>(state: State<To, From, Handle>, isLate: boolean): void {
  const { stopping } = state;
  terminate(state);
  stopping?.onEnd(isLate);
}

function terminate<To, From, Handle extends WorkerHandle<To>>(state: State<To, From, Handle>): void {
  state.cancelTimer();
  state.handle?.terminate();
  state.handle = state.stopping = undefined;
}
