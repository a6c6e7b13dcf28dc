import { type Clock } from "../../platform/mod.ts";
import { createFrameReader, ERROR_CODE, framesOf } from "../transport/mod.ts";
import { type Connection, watchEnd } from "./connection.ts";

/** Options of `unaryCall`. */
export interface UnaryCallOptions {
  /** `/package.Service/Method`. */
  readonly method: string;
  readonly request: Uint8Array;
  /** The longest accepted response. */
  readonly maxMessageBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/**
 * Makes a call with one request and one response, which it returns.
 * @throws {StatusError} if the server refuses it
 * @throws {Error} if the connection or the call fails, or there is no response in time
 */
export async function unaryCall(
  connection: Connection,
  { method, request, maxMessageBytes, timeoutMs, clock }: UnaryCallOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  const cancelTimeout = clock.schedule(timeoutMs, () => reject(new Error(`no answer within ${timeoutMs / 1000} s`)));
  const stream = connection.request(method);
  const frames = createFrameReader(maxMessageBytes);
  let message: Uint8Array<ArrayBuffer> | undefined;
  stream.on("data", (bytes: Uint8Array) => {
    try {
      for (const received of frames.push(bytes)) message ??= received;
    } catch (error) {
      reject(error);
    }
  });
  // A status other than OK comes before the end, and there is no message then.
  stream.on("end", () => {
    if (message !== undefined && !stream.rstCode) resolve(message);
  });
  watchEnd(stream, reject);
  stream.end(framesOf([request]));
  try {
    return await promise;
  } finally {
    cancelTimeout();
    stream.close(ERROR_CODE.cancel);
  }
}
