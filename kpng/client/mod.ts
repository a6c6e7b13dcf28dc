/**
 * Calls of gRPC servers, with checks on hostile ones.
 *
 * In: requests. Out: responses. May touch: the network.
 */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import { type Clock, joinHostPort } from "../../platform/mod.ts";
import type { TlsFiles, WireAddress } from "../address/mod.ts";
import {
  createFrameReader,
  createHttp2FrameReader,
  createQuota,
  decodeStatusMessage,
  ERROR_CODE,
  FRAME,
  framesOf,
  http2ErrorText,
  httpStatusText,
  isPingAck,
  needsAnswer,
  readGoaway,
  STATUS,
  StatusError,
  statusText,
} from "../transport/mod.ts";

/** The limit for PING and SETTINGS frames from a server per window. */
const CONTROL_FRAMES_PER_WINDOW = 1000;
const WINDOW_MS = 10_000;

const LINGER_MS = 1000;

/** The content type of calls and answers; `+proto` or another encoding can follow. */
const GRPC = "application/grpc";

/**
 * The receive window in bytes. With HTTP/2's default of 64 kB, a full snapshot takes hundreds of round trips, which also cost
 * the server CPU.
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

/** A connection to a gRPC server. */
export interface Connection {
  /** Starts a call of `/package.Service/Method`; with `endStream`, one without a request. */
  request(method: string, options?: { readonly endStream: true }): ClientHttp2Stream;
  isOpen(): boolean;
  close(): void;
}

/** Connects; `onEnd` is called at the end, with a ServerLeavingError after a GOAWAY without an error. */
export async function openConnection({ address, tls, clock, onEnd }: {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  readonly clock: Clock;
  readonly onEnd: (error: Error) => void;
}): Promise<Connection> {
  const session = await connect(address, tls);
  let socket: Socket | undefined;
  session.on("error", onEnd);
  session.on("connect", (_, connected) => {
    // node:http2 emits it for a session that was destroyed while the socket connected, too.
    if (session.destroyed) return;
    session.setLocalWindowSize(WINDOW_BYTES);
    socket = connected as Socket;
    refuseHostileFrames(socket, clock, (error) => session.destroy(error));
  });
  session.on("close", () => onEnd(new Error("the connection was closed")));
  return {
    request: (method, options) => session.request(headersOf(method, address), options),
    isOpen: () => !session.closed && !session.destroyed,
    close() {
      session.destroy();
      if (socket !== undefined) destroyLate(socket, clock);
    },
  };
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
      if (needsAnswer(frame.type) && !quota()) {
        refuse(new Error("the server floods with PING or SETTINGS frames"));
      } else if (isPingAck(frame)) refuse(new Error("the server acknowledges a PING that was not sent"));
      // The next connection starts with everything that this one would still receive.
    }, ({ type }, payload) => {
      if (type === FRAME.goaway) refuse(goawayError(payload));
    }),
  );
}

function goawayError(payload: Uint8Array): Error {
  const goaway = readGoaway(payload);
  if (goaway === undefined) return new Error("the server sent a broken GOAWAY");
  const because = goaway.debug === "" ? "" : ` (${goaway.debug})`;
  return goaway.code === ERROR_CODE.NO_ERROR
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

/** Rejects with the reason of a call's end: its status, in the trailers or the only headers, or the error of its stream. */
export function watchEnd(stream: ClientHttp2Stream, reject: (error: Error) => void): void {
  let status: string | undefined;
  const note = (headers: IncomingHttpHeaders) => {
    const code = headers["grpc-status"];
    if (code === undefined) return;
    status = statusText(Number(code), decodeStatusMessage(String(headers["grpc-message"] ?? "")));
    if (Number(code) !== STATUS.OK) reject(new StatusError(Number(code), `the server answered ${status}`));
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

async function connect(address: WireAddress, tls: TlsFiles | undefined): Promise<ClientHttp2Session> {
  const http2 = await import("node:http2");
  if (tls !== undefined) {
    const { ca, crt: cert, key, serverName } = tls;
    const named = serverName === undefined ? {} : { servername: serverName };
    if (address.kind === "tcp") {
      return http2.connect(`https://${authorityOf(address)}`, { ...SESSION_OPTIONS, ca, cert, key, ...named });
    }
    throw new Error("TLS is not supported on unix sockets");
  }
  const net = await import("node:net");
  const socket = address.kind === "unix"
    ? net.connect({ path: address.path })
    : net.connect({ host: address.host || "127.0.0.1", port: address.port });
  return http2.connect("http://localhost", { ...SESSION_OPTIONS, createConnection: () => socket });
}

/**
 * Makes a call of `/package.Service/Method` with one request and one response, which it returns.
 * @throws {StatusError} if the server refuses it
 * @throws {Error} if the connection or the call fails, or there is no response in time
 */
export async function unaryCall(
  connection: Connection,
  { method, request, maxMessageBytes, timeoutMs, clock }: {
    readonly method: string;
    readonly request: Uint8Array;
    readonly maxMessageBytes: number;
    readonly timeoutMs: number;
    readonly clock: Clock;
  },
): Promise<Uint8Array<ArrayBuffer>> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  const stream = connection.request(method);
  const cancelTimeout = clock.schedule(timeoutMs, () => reject(new Error(`no answer within ${timeoutMs / 1000} s`)));
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
    stream.close(ERROR_CODE.CANCEL);
  }
}
