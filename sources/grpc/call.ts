import type { ClientHttp2Stream } from "node:http2";
import type { Clock } from "../../platform/mod.ts";
import { type Connection, openConnection, watchEnd } from "../../kpng/client/mod.ts";
import {
  createFrameReader,
  DEFAULT_MESSAGE_BYTES,
  ERROR_CODE,
  framesOf,
  type LivenessLimits,
  silenceText,
  type TlsFiles,
  watchLiveness,
  type WireAddress,
} from "../../kpng/transport/mod.ts";
import { PROBE_METHOD } from "../../kpng/messages/mod.ts";

/** Options of `call`. */
export interface CallOptions {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  /** `/package.Service/Method`. */
  readonly method: string;
  /** Sent when the call starts, and again whenever `onMessage` returns true. */
  readonly request: Uint8Array;
  readonly onMessage: (message: Uint8Array<ArrayBuffer>) => boolean;
  /** The longest accepted message; DEFAULT_MESSAGE_BYTES by default. */
  readonly maxMessageBytes?: number;
  readonly clock: Clock;
  /** When to probe a silent server, and when to give up. */
  readonly liveness: LivenessLimits;
  readonly signal: AbortSignal;
}

/** The limit for unsent requests: each round requests the next one. */
const REQUEST_BYTES_WAITING = 64 * 1024;

/**
 * Makes a bidirectional streaming call on a new connection. Always throws: the reason of its end (ServerLeavingError after a
 * GOAWAY without an error), or the signal's reason.
 */
export async function call(options: CallOptions): Promise<never> {
  const { method, request, onMessage, clock, liveness: limits, signal } = options;
  signal.throwIfAborted();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  // The promise may be rejected while nothing awaits it.
  ended.catch(() => {});
  const connection = await openConnection({ ...options, onEnd: reject });
  const liveness = watchLiveness({
    clock,
    limits,
    probe() {
      // A server that is shutting down accepts no more calls, but may continue this one for a while.
      if (connection.isOpen()) probe(connection, () => liveness.received());
    },
    onSilent: () => reject(new Error(silenceText(limits))),
  });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  let stream: ClientHttp2Stream | undefined;
  try {
    stream = connection.request(method);
    watchEnd(stream, reject);
    const frames = createFrameReader(options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES);
    stream.on("data", (bytes: Uint8Array) => {
      liveness.received();
      try {
        for (const message of frames.push(bytes)) {
          if (!onMessage(message)) continue;
          if (stream!.writableLength > REQUEST_BYTES_WAITING) throw new Error("the server does not read requests");
          stream!.write(framesOf([request]));
        }
      } catch (error) {
        reject(error);
      }
    });
    stream.write(framesOf([request]));
    return await ended;
  } finally {
    signal.removeEventListener("abort", onAbort);
    liveness.stop();
    stream?.close(ERROR_CODE.cancel);
    connection.close();
  }
}

/**
 * Calls an unknown method to get any answer. HTTP/2 has PING for this, but KPNG's servers disconnect a client that sends it more
 * than once in five minutes.
 */
function probe(connection: Connection, answered: () => void): void {
  const stream = connection.request(PROBE_METHOD, { endStream: true });
  stream.on("error", () => {});
  stream.on("response", answered);
  stream.resume();
}
