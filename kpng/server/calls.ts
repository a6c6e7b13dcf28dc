import type { ServerHttp2Stream } from "node:http2";
import { type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import { STATUS, StatusError } from "../transport/mod.ts";
import type { Subscription } from "./answers.ts";
import { type Call, carryOut, refuse } from "./call.ts";
import { type CallHeaders, readCallHeaders } from "./call_headers.ts";
import { createChangeWaiters } from "./change_waiters.ts";
import { createHealth } from "./health.ts";
import type { Limits } from "./limits.ts";
import { reflectionMethods } from "./reflection.ts";
import { watchersOf } from "./figures.ts";
import { createSemaphore } from "./semaphore.ts";
import type { ServedState } from "./state.ts";
import type { Tally } from "./tally.ts";
import { counted, type Traffic } from "./traffic.ts";
import { openWatch, scopeOf } from "./watch_call.ts";
import { serveWatcher } from "./watcher.ts";

/** Options of `createCalls`. */
export interface CallsOptions {
  readonly state: ServedState;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly traffic: Traffic;
  /** Counts the calls of all isolates, which the limits apply to. */
  readonly tally: Tally;
}

/** The calls of a server. */
export interface Calls {
  /** Carries out the call of a new stream, or refuses it. */
  start(stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>): void;
  /** Ends all calls with UNAVAILABLE and refuses others; health watches report NOT_SERVING first. */
  stop(): Promise<void>;
}

/** Dispatches calls to their methods. */
export function createCalls({ state, limits, clock, logger, traffic, tally }: CallsOptions): Calls {
  const { answers, revisions } = state;
  const waiters = createChangeWaiters(revisions, clock);
  const transfers = createSemaphore(limits.transfers);
  const health = createHealth(revisions);
  const services = new Map([...health.methods, ...reflectionMethods()]);
  const watchers = new Set<AbortController>();
  const serviceCalls = new Set<AbortController>();
  const end = new StatusError(STATUS.unavailable, "the server is shutting down");
  let isStopping = false;

  const watch = async (stream: ServerHttp2Stream, scope: Subscription["scope"], { timeoutMs }: CallHeaders) => {
    const abort = new AbortController();
    const { signal } = abort;
    const own = traffic.join(scope);
    watchers.add(abort);
    const serve = (call: Call) => {
      const watcher = counted(openWatch(call, scope), own);
      return serveWatcher(watcher, { answers, clock, signal, transfers, changed: waiters.changed, traffic: own });
    };
    const error = await carryOut(stream, serve, { limits, clock, timeoutMs, abort, onStall: own.stalled });
    if (error !== undefined) logger.debug("watcher disconnected", { scope, reason: errorText(error) });
    watchers.delete(abort);
    own.leave();
  };

  const serveOther = async (
    stream: ServerHttp2Stream,
    method: (call: Call) => Promise<void>,
    { path, timeoutMs }: CallHeaders,
  ) => {
    const abort = new AbortController();
    serviceCalls.add(abort);
    tally.add("service calls", 1);
    const error = await carryOut(stream, method, { limits, clock, timeoutMs, abort, onStall: () => {} });
    if (error !== undefined) logger.debug("call ended", { path, reason: errorText(error) });
    serviceCalls.delete(abort);
    tally.add("service calls", -1);
  };

  const start = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => {
    const call = readCallHeaders(headers);
    if ("message" in call) return refuse(stream, call, { limits, clock });
    const refuseWith = (status: number, message: string) => {
      refuse(stream, { httpStatus: 200, status, message }, { limits, clock });
    };
    if (isStopping) return refuseWith(end.status, end.message);
    const scope = scopeOf(call.path);
    const method = services.get(call.path);
    if (scope !== undefined) {
      if (watchersOf(tally) < limits.streams) return void watch(stream, scope, call);
      traffic.refusedWatcher();
      return refuseWith(STATUS.resourceExhausted, `limit of ${limits.streams} watchers reached`);
    }
    if (method === undefined) return refuseWith(STATUS.unimplemented, `the method ${call.path} is not implemented`);
    if (tally.total("service calls") < limits.serviceCalls) return void serveOther(stream, method, call);
    refuseWith(STATUS.resourceExhausted, `limit of ${limits.serviceCalls} health and reflection calls reached`);
  };

  return {
    start,
    async stop() {
      isStopping = true;
      waiters.close();
      health.stop();
      for (const abort of watchers) abort.abort(end);
      // The reports of the end are written in this turn.
      await sleep(clock, 0);
      for (const abort of serviceCalls) abort.abort(end);
    },
  };
}
