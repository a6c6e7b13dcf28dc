import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { type WireAddress } from "../../wire/address.ts";
import { createFrameReader, framesOf } from "../../wire/frames.ts";
import { STATUS, statusText } from "../../wire/status.ts";
import type { TlsFiles } from "../../wire/tls.ts";

/** A call of a method whose both directions are streams. */
export interface CallOptions {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  /** `/package.Service/Method`. */
  readonly method: string;
  /** Sent when the call is open, and again whenever `onMessage` returns true. */
  readonly request: Uint8Array;
  readonly onMessage: (message: Uint8Array<ArrayBuffer>) => boolean;
  readonly signal: AbortSignal;
}

/** The longest message that is taken, as gRPC's clients have it. */
const LONGEST_MESSAGE_BYTES = 4 * 1024 * 1024;
/** How long a connection is silent until the kernel asks whether the other side is still there. */
const KEEP_ALIVE_MS = 30_000;

/** Makes a call on a connection of its own. Always throws in the end: why it ended, or the signal's reason. */
export async function call(options: CallOptions): Promise<never> {
  const { method, request, onMessage, signal } = options;
  signal.throwIfAborted();
  const session = await connect(options);
  try {
    return await new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      session.on("error", reject);
      session.on("close", () => reject(new Error("the connection was closed")));
      const stream = session.request({
        ":method": "POST",
        ":path": method,
        "content-type": "application/grpc",
        te: "trailers",
      });
      stream.on("error", reject);
      watchEnd(stream, reject);
      const frames = createFrameReader(LONGEST_MESSAGE_BYTES);
      stream.on("data", (bytes: Uint8Array) => {
        try {
          for (const message of frames.push(bytes)) if (onMessage(message)) stream.write(framesOf([request]));
        } catch (error) {
          reject(error);
        }
      });
      stream.write(framesOf([request]));
    });
  } finally {
    session.destroy();
  }
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
      return http2.connect(`https://${hostText(address.host)}:${address.port}`, { ca, cert, key });
    }
    throw new Error("a unix socket is not spoken to with TLS");
  }
  const net = await import("node:net");
  const socket = address.kind === "unix"
    ? net.connect({ path: address.path })
    : net.connect({ host: address.host || "127.0.0.1", port: address.port });
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  return http2.connect("http://localhost", { createConnection: () => socket });
}

function hostText(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
