import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import { type Clock, joinHostPort } from "../../platform/mod.ts";
import {
  createFrameReader,
  createHttp2FrameReader,
  createQuota,
  decodeStatusMessage,
  DEFAULT_MESSAGE_BYTES,
  ERROR_CODE,
  framesOf,
  http2ErrorText,
  httpStatusText,
  isPingAck,
  type LivenessLimits,
  needsAnswer,
  readGoaway,
  silenceText,
  STATUS,
  statusText,
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

/** The limit for PING and SETTINGS frames from a server per window. */
const CONTROL_FRAMES_PER_WINDOW = 1000;
const WINDOW_MS = 10_000;

/** How long an ended session may take to close its connection. */
const LINGER_MS = 1000;

/** The content type of calls and answers; `+proto` or another encoding can follow. */
const GRPC = "application/grpc";

/**
 * The bytes that a server may send before they are read. With HTTP/2's default of 64 kB, a full snapshot takes hundreds of round
 * trips, which also cost the server CPU.
 */
const WINDOW_BYTES = 1024 * 1024;

/** Options of HTTP/2: no server push, small headers. */
const SESSION_OPTIONS = {
  settings: { enablePush: false, maxHeaderListSize: 16 * 1024, initialWindowSize: WINDOW_BYTES },
  maxHeaderListPairs: 64,
};

/** Thrown when a server asks its clients to connect again, because it shuts down or balances its connections. */
export class ServerLeavingError extends Error {
  override readonly name = "ServerLeavingError";
}

/**
 * Makes a bidirectional streaming call on a new connection. Always throws: the reason of its end (ServerLeavingError after a
 * GOAWAY without an error), or the signal's reason.
 */
export async function call(options: CallOptions): Promise<never> {
  const { address, method, request, onMessage, clock, liveness: limits, signal } = options;
  signal.throwIfAborted();
  const session = await connect(options);
  let socket: Socket | undefined;
  const { promise: ended, reject } = Promise.withResolvers<never>();
  // The promise may be rejected while nothing awaits it.
  ended.catch(() => {});
  const liveness = watchLiveness({
    clock,
    limits,
    probe() {
      // A server that is shutting down accepts no more calls, but may continue this one for a while.
      if (!session.closed && !session.destroyed) probe(session, address, () => liveness.received());
    },
    onSilent: () => reject(new Error(silenceText(limits))),
  });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  let stream: ClientHttp2Stream | undefined;
  try {
    session.on("error", reject);
    session.on("connect", (_, connected) => {
      session.setLocalWindowSize(WINDOW_BYTES);
      socket = connected as Socket;
      refuseHostileFrames(socket, clock, (error) => session.destroy(error));
    });
    session.on("close", () => reject(new Error("the connection was closed")));
    stream = session.request(headersOf(method, address));
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
    session.destroy();
    if (socket !== undefined) destroyLate(socket, clock);
  }
}

/** Destroys the socket after a while: the session waits for its last frame to be written, which may never happen. */
function destroyLate(socket: Socket, clock: Clock): void {
  const cancel = clock.schedule(LINGER_MS, () => socket.destroy());
  socket.once("close", cancel);
}

/**
 * Refuses a server that floods with frames that need an answer, which it need not read, and frames that crash node:http2
 * (Deno 2.9).
 */
function refuseHostileFrames(socket: Socket, clock: Clock, refuse: (error: Error) => void): void {
  const quota = createQuota(CONTROL_FRAMES_PER_WINDOW, WINDOW_MS, clock);
  // Before the session's own listener, which ignores data after the session is destroyed.
  socket.prependListener(
    "data",
    createHttp2FrameReader(0, (frame) => {
      if (needsAnswer(frame.type) && !quota.take()) {
        refuse(new Error("the server floods with PING or SETTINGS frames"));
      } else if (isPingAck(frame)) refuse(new Error("the server acknowledges a PING that was not sent"));
      // The next connection starts with everything that this one would still receive.
    }, (payload) => refuse(goawayError(payload))),
  );
}

function goawayError(payload: Uint8Array): Error {
  const goaway = readGoaway(payload);
  if (goaway === undefined) return new Error("the server sent a broken GOAWAY");
  const because = goaway.debug === "" ? "" : ` (${goaway.debug})`;
  return goaway.code === ERROR_CODE.noError
    ? new ServerLeavingError(`the server sent GOAWAY${because}`)
    : new Error(`the server closed the connection: ${http2ErrorText(goaway.code)}${because}`);
}

function headersOf(method: string, address: WireAddress): OutgoingHttpHeaders {
  return {
    ":method": "POST",
    ":path": method,
    // As grpc-go does for unix sockets.
    ":authority": address.kind === "unix" ? "localhost" : authorityOf(address),
    "content-type": GRPC,
    te: "trailers",
  };
}

function authorityOf({ host, port }: WireAddress & { readonly kind: "tcp" }): string {
  return joinHostPort(host || "127.0.0.1", port);
}

/**
 * Calls an unknown method to get any answer. HTTP/2 has PING for this, but KPNG's servers disconnect a client that sends it more
 * than once in five minutes.
 */
function probe(session: ClientHttp2Session, address: WireAddress, answered: () => void): void {
  const stream = session.request(headersOf(PROBE_METHOD, address), { endStream: true });
  stream.on("error", () => {});
  stream.on("response", answered);
  stream.resume();
}

/** Rejects with the reason of a call's end: its status, in the trailers or the only headers, or the error of its stream. */
function watchEnd(stream: ClientHttp2Stream, reject: (error: Error) => void): void {
  let status: string | undefined;
  const note = (headers: IncomingHttpHeaders) => {
    const code = headers["grpc-status"];
    if (code === undefined) return;
    status = statusText(Number(code), decodeStatusMessage(String(headers["grpc-message"] ?? "")));
    if (Number(code) !== STATUS.ok) reject(new Error(`the server answered ${status}`));
  };
  stream.on("response", (headers) => {
    note(headers);
    const { ":status": code = 0, "content-type": type = GRPC } = headers;
    if (code !== 200) reject(new Error(`the server answered with ${httpStatusText(code)} instead of a gRPC status`));
    if (!type.startsWith(GRPC)) {
      reject(new Error(`the server answered with content type ${type}, so it is not a gRPC server`));
    }
  });
  stream.on("trailers", note);
  const resetError = () => new Error(`the server reset the call: ${http2ErrorText(stream.rstCode ?? 0)}`);
  stream.on("end", () => {
    const ending = new Error(`the server ended the call${status === undefined ? "" : ` (${status})`}`);
    reject(stream.rstCode ? resetError() : ending);
  });
  // The other errors are the session's, for which the streams are reset as well.
  stream.on("error", (error: Error & { readonly code?: string }) => {
    reject(error.code === "ERR_HTTP2_STREAM_ERROR" ? resetError() : error);
  });
  stream.on("close", () => reject(resetError()));
}

async function connect({ address, tls }: CallOptions): Promise<ClientHttp2Session> {
  const http2 = await import("node:http2");
  if (tls !== undefined) {
    const { ca, crt: cert, key } = tls;
    if (address.kind === "tcp") {
      return http2.connect(`https://${authorityOf(address)}`, { ...SESSION_OPTIONS, ca, cert, key });
    }
    throw new Error("TLS is not supported on unix sockets");
  }
  const net = await import("node:net");
  const socket = address.kind === "unix"
    ? net.connect({ path: address.path })
    : net.connect({ host: address.host || "127.0.0.1", port: address.port });
  return http2.connect("http://localhost", { ...SESSION_OPTIONS, createConnection: () => socket });
}
