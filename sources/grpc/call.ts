import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../platform/mod.ts";
import {
  createFrameReader,
  createHttp2FrameReader,
  createQuota,
  FRAME,
  framesOf,
  isPingAck,
  type LivenessLimits,
  silenceText,
  STATUS,
  statusText,
  type TlsFiles,
  wantsAnswer,
  watchLiveness,
  type WireAddress,
} from "../../kpng/transport/mod.ts";
import { PROBE_METHOD } from "../../kpng/messages/mod.ts";

/** A call of a method whose both directions are streams. */
export interface CallOptions {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  /** `/package.Service/Method`. */
  readonly method: string;
  /** Sent when the call is open, and again whenever `onMessage` returns true. */
  readonly request: Uint8Array;
  readonly onMessage: (message: Uint8Array<ArrayBuffer>) => boolean;
  readonly clock: Clock;
  /** When a server that says nothing is asked whether it is there, and when it is given up. */
  readonly liveness: LivenessLimits;
  readonly signal: AbortSignal;
}

/** The longest message that is taken, as gRPC's clients have it. */
const LONGEST_MESSAGE_BYTES = 4 * 1024 * 1024;

/** The bytes of requests that may wait for a server to take them: each round of its own asks for the next one. */
const REQUEST_BYTES_WAITING = 64 * 1024;

/** PING and SETTINGS frames that a server may send in a window. */
const CONTROL_FRAMES_PER_WINDOW = 1000;
const WINDOW_MS = 10_000;

/** How long a connection that is given up may take to say so. */
const LINGER_MS = 1000;

/** Options of HTTP/2: a server of this protocol pushes nothing, and its headers are few. */
const SESSION_OPTIONS = { settings: { enablePush: false, maxHeaderListSize: 16 * 1024 }, maxHeaderListPairs: 64 };

/** HTTP/2's code for a stream that is no longer wanted. */
const CANCEL = 8;

/** Makes a call on a connection of its own. Always throws in the end: why it ended, or the signal's reason. */
export async function call(options: CallOptions): Promise<never> {
  const { method, request, onMessage, clock, liveness: limits, signal } = options;
  signal.throwIfAborted();
  const session = await connect(options);
  let socket: Socket | undefined;
  const { promise: ended, reject } = Promise.withResolvers<never>();
  // It may also end before it is waited for, or after.
  ended.catch(() => {});
  const liveness = watchLiveness({
    clock,
    limits,
    ask() {
      // A server that is about to end takes no more calls, and may go on with this one for a while.
      if (!session.closed && !session.destroyed) probe(session, () => liveness.heard());
    },
    onSilent: () => reject(new Error(silenceText(limits))),
  });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  let stream: ClientHttp2Stream | undefined;
  try {
    session.on("error", reject);
    session.on("connect", (_, connected) => {
      socket = connected as Socket;
      refuseHostileFrames(socket, clock, (error) => session.destroy(error));
    });
    session.on("close", () => reject(new Error("the connection was closed")));
    stream = session.request(headersOf(method));
    stream.on("error", reject);
    watchEnd(stream, reject);
    const frames = createFrameReader(LONGEST_MESSAGE_BYTES);
    stream.on("data", (bytes: Uint8Array) => {
      liveness.heard();
      try {
        for (const message of frames.push(bytes)) {
          if (!onMessage(message)) continue;
          if (stream!.writableLength > REQUEST_BYTES_WAITING) throw new Error("the server takes no requests");
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
    stream?.close(CANCEL);
    session.destroy();
    if (socket !== undefined) destroyLate(socket, clock);
  }
}

/** The session waits until its last frame is written, which a server that reads nothing never lets happen. */
function destroyLate(socket: Socket, clock: Clock): void {
  const cancel = clock.schedule(LINGER_MS, () => socket.destroy());
  socket.once("close", cancel);
}

/**
 * Watches for a server that makes this side answer without end, for it need not read what is answered, and for frames over
 * which node:http2 ends the process (Deno 2.9).
 */
function refuseHostileFrames(socket: Socket, clock: Clock, refuse: (error: Error) => void): void {
  const quota = createQuota(CONTROL_FRAMES_PER_WINDOW, WINDOW_MS, clock);
  // In front of the session's own listener, which ignores what comes once the session is destroyed.
  socket.prependListener(
    "data",
    createHttp2FrameReader(0, (frame) => {
      if (wantsAnswer(frame.type) && !quota.take()) {
        refuse(new Error("the server floods with PING or SETTINGS frames"));
      } else if (isPingAck(frame)) refuse(new Error("the server acknowledges a PING that was not sent"));
      // What it has still to send on this connection is the beginning of what the next one begins with.
      else if (frame.type === FRAME.goaway) refuse(new Error("the server is shutting down"));
    }),
  );
}

function headersOf(method: string): OutgoingHttpHeaders {
  return { ":method": "POST", ":path": method, "content-type": "application/grpc", te: "trailers" };
}

/**
 * Makes the server say something: that it has no such method. HTTP/2 has a frame for this, but KPNG's servers hang up on a
 * client that sends it more than once in five minutes.
 */
function probe(session: ClientHttp2Session, answered: () => void): void {
  const stream = session.request(headersOf(PROBE_METHOD), { endStream: true });
  stream.on("error", () => {});
  stream.on("response", answered);
  stream.resume();
}

/** gRPC says how a call went in trailers, or, where it failed at once, in the headers. */
function watchEnd(stream: ClientHttp2Stream, reject: (error: Error) => void): void {
  let status: string | undefined;
  const note = (headers: IncomingHttpHeaders) => {
    const code = headers["grpc-status"];
    if (code === undefined) return;
    status = statusText(Number(code), decode(String(headers["grpc-message"] ?? "")));
    if (Number(code) !== STATUS.ok) reject(new Error(`the server answered ${status}`));
  };
  stream.on("response", (headers) => {
    const { ":status": code } = headers;
    if (code !== 200) reject(new Error(`the server answered with HTTP status ${code}, which no gRPC server does`));
    note(headers);
  });
  stream.on("trailers", note);
  stream.on("end", () => reject(new Error(`the server ended the call${status === undefined ? "" : ` (${status})`}`)));
  stream.on("close", () => reject(new Error("the call was broken off")));
}

function decode(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}

async function connect({ address, tls }: CallOptions): Promise<ClientHttp2Session> {
  const http2 = await import("node:http2");
  if (tls !== undefined) {
    const { ca, crt: cert, key } = tls;
    if (address.kind === "tcp") {
      return http2.connect(`https://${hostText(address.host)}:${address.port}`, { ...SESSION_OPTIONS, ca, cert, key });
    }
    throw new Error("a unix socket is not spoken to with TLS");
  }
  const net = await import("node:net");
  const socket = address.kind === "unix"
    ? net.connect({ path: address.path })
    : net.connect({ host: address.host || "127.0.0.1", port: address.port });
  return http2.connect("http://localhost", { ...SESSION_OPTIONS, createConnection: () => socket });
}

function hostText(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
