import type { ServerHttp2Stream } from "node:http2";
import { WireError } from "../codec/mod.ts";
import { createFrameReader, encodeStatusMessage, ERROR_CODE, STATUS, StatusError } from "../transport/mod.ts";
import type { ServerContext } from "./context.ts";
import type { Outlet } from "./outlet.ts";
import { createDeadline } from "./waiting.ts";

interface Refusal {
  readonly httpStatus: number;
  readonly status: number;
  readonly message: string;
}

/** The headers of a call. */
export interface CallHeaders {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The deadline that the client set for the call, in milliseconds; undefined for none. */
  readonly timeoutMs: number | undefined;
}

/** Milliseconds of the units of `grpc-timeout`. */
const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** Reads the headers of a call, or refuses it (gRPC: PROTOCOL-HTTP2.md, with the HTTP statuses of grpc-go). */
export function readCallHeaders(headers: Readonly<Record<string, unknown>>): CallHeaders | Refusal {
  const text = (name: string) => String(headers[name] ?? "");
  const method = text(":method");
  if (method !== "POST") {
    return { httpStatus: 405, status: STATUS.INTERNAL, message: `the HTTP method is ${method}, must be POST` };
  }
  const type = text("content-type");
  if (!/^application\/grpc(\+proto)?\s*(;|$)/i.test(type)) {
    const message = `the content type is ${JSON.stringify(type)}, must be application/grpc`;
    return { httpStatus: 415, status: STATUS.INVALID_ARGUMENT, message };
  }
  const encoding = text("grpc-encoding");
  if (encoding !== "" && encoding !== "identity") {
    const message = `the compression ${JSON.stringify(encoding)} is not supported`;
    return { httpStatus: 200, status: STATUS.UNIMPLEMENTED, message };
  }
  const timeout = text("grpc-timeout");
  const [, amount, unit] = /^(\d{1,8})([HMSmun])$/.exec(timeout) ?? [];
  if (timeout !== "" && unit === undefined) {
    const message = `grpc-timeout is ${JSON.stringify(timeout)}, must be up to eight digits and a unit`;
    return { httpStatus: 400, status: STATUS.INTERNAL, message };
  }
  return { path: text(":path"), timeoutMs: unit === undefined ? undefined : Number(amount) * UNITS_MS[unit]! };
}

/** A running call. */
export interface Call {
  /** Aborted at the end of the call, with its reason. */
  readonly signal: AbortSignal;
  /** Starts to read requests; called once. `decode` throws WireError for an invalid one. */
  open<T>(decode: (message: Uint8Array<ArrayBuffer>) => T): RequestStream<T>;
}

interface CarryOutOptions extends ServerContext {
  readonly outlet: Outlet;
  /** The deadline that the client set for the call; undefined for none. */
  readonly timeoutMs: number | undefined;
  readonly abort: AbortController;
  /** Called if the client does not read for too long. */
  readonly onStall: () => void;
}

/** The headers of every answer: without them, clients may compress. */
const ANSWER = { "content-type": "application/grpc", "grpc-accept-encoding": "identity" } as const;

/** The longest delay of a timer; about 24 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Handles a call on a stream. If `serve` throws or the call is aborted, the call ends with the error's status, and the promise
 * resolves to the error; otherwise to undefined.
 */
export async function carryOut(
  stream: ServerHttp2Stream,
  serve: (call: Call) => Promise<void>,
  options: CarryOutOptions,
): Promise<unknown> {
  const { clock, timeoutMs, abort } = options;
  const { signal } = abort;
  const cancelDeadline = timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS
    ? () => {}
    : clock.schedule(timeoutMs, () => {
      abort.abort(new StatusError(STATUS.DEADLINE_EXCEEDED, "the deadline of the call has passed"));
    });
  let hasEnded = false;
  try {
    stream.respond({ ":status": 200, ...ANSWER }, { waitForTrailers: true });
    stream.on("wantTrailers", () => {
      hasEnded = true;
      if (!stream.closed && !stream.destroyed) stream.sendTrailers(trailersOf(signal));
    });
    await serve({ signal, open: (decode) => openStream(stream, decode, options) });
    return undefined;
  } catch (error) {
    if (!signal.aborted) abort.abort(error);
    return error;
  } finally {
    cancelDeadline();
    if (!stream.closed && !stream.destroyed) {
      // A stalled reader does not read up to the trailers; gRPC clients take this error as RESOURCE_EXHAUSTED.
      closeLate(stream, () => hasEnded ? ERROR_CODE.NO_ERROR : ERROR_CODE.ENHANCE_YOUR_CALM, options);
      stream.end();
    }
  }
}

/** Refuses a call. */
export function refuse(
  stream: ServerHttp2Stream,
  { httpStatus, status, message }: Refusal,
  context: ServerContext,
): void {
  stream.respond({ ":status": httpStatus, ...ANSWER, ...statusHeaders(status, message) }, { endStream: true });
  closeLate(stream, () => ERROR_CODE.NO_ERROR, context);
}

/** Closes a stream that was ended, unless its client does so in time. */
function closeLate(stream: ServerHttp2Stream, code: () => number, { limits, clock }: ServerContext): void {
  stream.once("close", clock.schedule(limits.lingerMs, () => stream.close(code())));
}

function trailersOf({ aborted, reason }: AbortSignal): Record<string, string> {
  if (!aborted) return statusHeaders(STATUS.OK, "");
  if (reason instanceof StatusError) return statusHeaders(reason.status, reason.message);
  return statusHeaders(STATUS.INTERNAL, "the server failed to carry out the call");
}

function statusHeaders(status: number, message: string): Record<string, string> {
  return { "grpc-status": String(status), ...message !== "" && { "grpc-message": encodeStatusMessage(message) } };
}

/** The requests of a call, and its answers. */
export interface RequestStream<T> {
  /** Resolves with the next request; undefined after the last one. Rejects with the reason of the call's end. */
  next(): Promise<T | undefined>;
  /** Resolves when the reader has accepted the bytes. Rejects if it has disconnected or stalled. One write at a time. */
  write(bytes: Uint8Array): Promise<void>;
}

/** One HTTP/2 stream. Ends the call on too many or invalid requests, or if the client does not read for too long. */
function openStream<T>(
  stream: ServerHttp2Stream,
  decode: (message: Uint8Array<ArrayBuffer>) => T,
  { limits, clock, outlet, onStall, abort }: CarryOutOptions,
): RequestStream<T> {
  const { signal } = abort;
  const frames = createFrameReader(limits.requestBytes);
  const requests: T[] = [];
  const send = outlet.open(stream);
  let ended = false;
  let wake = () => {};

  const cancelIdle = clock.schedule(limits.idleMs, () => {
    abort.abort(new StatusError(STATUS.INVALID_ARGUMENT, "no request received"));
  });

  // One timer and one listener for all writes: there are thousands of writes per second.
  let rejectWrite: (reason: unknown) => void = () => {};
  const stall = createDeadline(clock, () => {
    onStall();
    abort.abort(new StatusError(STATUS.RESOURCE_EXHAUSTED, "the client does not read"));
  });

  stream.on("data", (bytes: Uint8Array) => {
    if (signal.aborted) return;
    try {
      for (const message of frames.push(bytes)) {
        if (requests.length >= limits.requestsWaiting) {
          throw new StatusError(STATUS.RESOURCE_EXHAUSTED, "too many unanswered requests");
        }
        requests.push(decode(message));
      }
      if (requests.length > 0) cancelIdle();
      wake();
    } catch (error) {
      abort.abort(error instanceof WireError ? new StatusError(STATUS.INVALID_ARGUMENT, error.message) : error);
    }
  });
  stream.on("end", () => {
    if (frames.isInside()) abort.abort(new StatusError(STATUS.INVALID_ARGUMENT, "the last request is cut off"));
    ended = true;
    wake();
  });
  stream.on("error", (error: Error) => abort.abort(error));
  stream.on("close", () => {
    cancelIdle();
    abort.abort(new Error("the stream was closed"));
  });
  signal.addEventListener("abort", () => {
    stall.stop();
    rejectWrite(signal.reason);
    wake();
  });

  return {
    async next() {
      while (requests.length === 0 && !ended) {
        signal.throwIfAborted();
        await new Promise<void>((resolve) => wake = resolve);
      }
      signal.throwIfAborted();
      return requests.shift();
    },
    write(bytes) {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        rejectWrite = reject;
        stall.set(limits.stallMs);
        // After a failed write the stream closes, which aborts.
        send(bytes, () => {
          stall.clear();
          resolve();
        });
      });
    },
  };
}
