import type { ServerHttp2Stream } from "node:http2";
import type { Clock } from "../../platform/mod.ts";
import { encodeStatusMessage, ERROR_CODE, STATUS, StatusError } from "../transport/mod.ts";
import type { Refusal } from "./call_headers.ts";
import type { Limits } from "./limits.ts";
import { openStream, type RequestStream } from "./stream.ts";

/** A call that is being carried out. */
export interface Call {
  /** Aborted at the end of the call, with its reason. */
  readonly signal: AbortSignal;
  /** Starts to read requests; called once. */
  open<T>(decode: (message: Uint8Array<ArrayBuffer>) => T): RequestStream<T>;
}

/** Options of `carryOut`. */
export interface CarryOutOptions {
  readonly limits: Limits;
  readonly clock: Clock;
  /** The time that the client gives the call; undefined for any. */
  readonly timeoutMs: number | undefined;
  /** Aborts the call. */
  readonly abort: AbortController;
  /** Called if the client does not read for too long. */
  readonly onStall: () => void;
}

/** The headers of every answer: without them, clients may compress. */
const ANSWER = { "content-type": "application/grpc", "grpc-accept-encoding": "identity" } as const;

/** The longest delay of a timer; about 24 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Carries out a call on a stream and ends it with a status: that of the error `serve` throws or the call is aborted with.
 * Resolves with that error, undefined without one.
 */
export async function carryOut(
  stream: ServerHttp2Stream,
  serve: (call: Call) => Promise<void>,
  { limits, clock, timeoutMs, abort, onStall }: CarryOutOptions,
): Promise<unknown> {
  const { signal } = abort;
  const cancelDeadline = timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS
    ? () => {}
    : clock.schedule(timeoutMs, () => {
      abort.abort(new StatusError(STATUS.deadlineExceeded, "the deadline of the call has passed"));
    });
  let hasEnded = false;
  try {
    stream.respond({ ":status": 200, ...ANSWER }, { waitForTrailers: true });
    stream.on("wantTrailers", () => {
      hasEnded = true;
      if (!stream.closed && !stream.destroyed) stream.sendTrailers(trailersOf(signal));
    });
    await serve({ signal, open: (decode) => openStream(stream, { decode, limits, clock, onStall, abort }) });
    return undefined;
  } catch (error) {
    if (!signal.aborted) abort.abort(error);
    return error;
  } finally {
    cancelDeadline();
    if (!stream.closed && !stream.destroyed) {
      // A stalled reader does not read up to the trailers; gRPC clients take this error as RESOURCE_EXHAUSTED.
      closeLate(stream, () => hasEnded ? ERROR_CODE.noError : ERROR_CODE.enhanceYourCalm, { limits, clock });
      stream.end();
    }
  }
}

/** Answers a call that is not carried out. */
export function refuse(
  stream: ServerHttp2Stream,
  { httpStatus, status, message }: Refusal,
  timing: Pick<CarryOutOptions, "limits" | "clock">,
): void {
  stream.respond({ ":status": httpStatus, ...ANSWER, ...statusHeaders(status, message) }, { endStream: true });
  closeLate(stream, () => ERROR_CODE.noError, timing);
}

/** Closes a stream that was ended, unless its client does so in time. */
function closeLate(
  stream: ServerHttp2Stream,
  code: () => number,
  { limits: { lingerMs }, clock }: Pick<CarryOutOptions, "limits" | "clock">,
): void {
  stream.once("close", clock.schedule(lingerMs, () => stream.close(code())));
}

function trailersOf({ aborted, reason }: AbortSignal): Record<string, string> {
  if (!aborted) return statusHeaders(STATUS.ok, "");
  if (reason instanceof StatusError) return statusHeaders(reason.status, reason.message);
  return statusHeaders(STATUS.internal, "the server failed to carry out the call");
}

function statusHeaders(status: number, message: string): Record<string, string> {
  return {
    "grpc-status": String(status),
    ...message !== "" && { "grpc-message": encodeStatusMessage(message) },
  };
}
