/**
 * Minimal HTTP/1 server for health checks, scrapes, the status page and the control socket: one request per connection, no
 * keep-alive, so that nothing delays a shutdown. Deno.serve has no connection limits (connection_limits.ts) and no timeout
 * for the request head: 600 clients that send half a request keep 600 connections open indefinitely. node:http does not
 * close them either and needs 5 MB more.
 */
import { canonicalAddress, type Clock, errorText, type Family, familyOf, isLoopback, type Logger } from "../mod.ts";
import { close, type Connection } from "./connection_limits.ts";

/** A parsed request. */
export interface HttpRequest {
  readonly method: string;
  /** Without the query, not percent-decoded. */
  readonly path: string;
  /** Text after the first question mark; may be empty. */
  readonly query: string;
  /** Accept header; empty if absent. */
  readonly accept: string;
  /** Host of an absolute-form target, or else the Host header; empty if absent. */
  readonly host: string;
  /** Whether the client is on this host: its address is loopback or equals the destination. */
  readonly isFromThisHost: boolean;
  /** Family of the destination address; undefined for a unix socket. */
  readonly family?: Family;
}

/** A response. */
export interface HttpAnswer {
  readonly status: 200 | 400 | 403 | 404 | 405 | 406 | 431 | 500 | 503;
  readonly contentType: string;
  /** Additional header fields. */
  readonly fields?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Handles a request. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** Options of `answerConnection`. */
export interface AnswerOptions {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Server header; distinguishes Sluice from kube-proxy, which listens on the same ports. */
export const SERVER = "Sluice";

const TEXT = "text/plain; charset=utf-8";
const REASONS: Readonly<Record<HttpAnswer["status"], string>> = {
  200: "OK",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

const MAX_HEAD_BYTES = 16 * 1024;
const REQUEST_TIMEOUT_MS = 10_000;
const LINGER_TIMEOUT_MS = 1_000;

/** Returns a response in plain text. */
export function textAnswer(status: HttpAnswer["status"], body: string): HttpAnswer {
  return { status, contentType: TEXT, body };
}

/**
 * Reads one request from `connection`, answers it and closes the connection. Rejects requests that take longer than 10
 * seconds or whose head exceeds 16 KiB. Never throws: a client that disconnects is not an error.
 */
export async function answerConnection(
  connection: Connection,
  handler: HttpHandler,
  { clock, logger }: AnswerOptions,
): Promise<void> {
  let cancelDeadline = clock.schedule(REQUEST_TIMEOUT_MS, () => close(connection));
  try {
    const request = await readRequest(connection);
    if (request === undefined) return;
    const answer = "status" in request ? request : await answerOf(handler, request, logger);
    const hasBody = "status" in request || request.method !== "HEAD";
    await writeAll(connection, encode(answer, hasBody, new Date(clock.now())));
    // Closing with unread input resets the connection and loses the response, so drain the input first.
    await connection.closeWrite();
    cancelDeadline();
    cancelDeadline = clock.schedule(LINGER_TIMEOUT_MS, () => close(connection));
    await readToEnd(connection);
  } catch (error) {
    logger.trace("HTTP connection failed", { error: errorText(error) });
  } finally {
    cancelDeadline();
    close(connection);
  }
}

async function answerOf(handler: HttpHandler, request: HttpRequest, logger: Logger): Promise<HttpAnswer> {
  try {
    return await handler(request);
  } catch (error) {
    logger.error("HTTP request failed", { path: request.path, error: errorText(error) });
    return textAnswer(500, "internal error, see the log\n");
  }
}

/** Returns the request, an error response for an invalid one, or undefined if the client closed the connection. */
async function readRequest(connection: Connection): Promise<HttpRequest | HttpAnswer | undefined> {
  const chunk = new Uint8Array(1024);
  const decoder = new TextDecoder("latin1");
  let head = "";
  for (;;) {
    const length = await connection.read(chunk);
    if (length === null) return undefined;
    head += decoder.decode(chunk.subarray(0, length), { stream: true });
    if (/\r?\n\r?\n/.test(head)) return parseHead(head, connection);
    if (head.length > MAX_HEAD_BYTES) return textAnswer(431, "request head exceeds 16 KiB\n");
  }
}

function parseHead(head: string, connection: Connection): HttpRequest | HttpAnswer {
  const [, method, target] = /^([A-Z]+) (\S+) HTTP\/1\.[01]\r?\n/.exec(head) ?? [];
  if (method === undefined || target === undefined) return textAnswer(400, "not an HTTP/1 request\n");
  // The absolute form (RFC 9112, 3.2.2) includes the host.
  const [absolute = "", absoluteHost] = /^https?:\/\/([^/?]*)/i.exec(target) ?? [];
  const local = target.slice(absolute.length);
  const path = local.replace(/\?.*$/, "");
  const host = absoluteHost ?? (/^host:(.*)$/im.exec(head)?.[1] ?? "").trim();
  const accept = (/^accept:(.*)$/im.exec(head)?.[1] ?? "").trim();
  return {
    method,
    path: path === "" ? "/" : path,
    query: local.slice(path.length + 1),
    accept,
    host,
    isFromThisHost: isFromThisHost(connection),
    family: familyOfDestination(connection),
  };
}

/** An IPv4-mapped IPv6 address counts as IPv4. */
function familyOfDestination({ localAddr }: Connection): Family | undefined {
  const address = localAddr.transport === "tcp" ? canonicalAddress(localAddr.hostname) : undefined;
  return address === undefined ? undefined : familyOf(address);
}

function isFromThisHost({ remoteAddr, localAddr }: Connection): boolean {
  if (remoteAddr.transport !== "tcp" || localAddr.transport !== "tcp") return remoteAddr.transport === "unix";
  const from = canonicalAddress(remoteAddr.hostname);
  return from !== undefined && (isLoopback(from) || from === canonicalAddress(localAddr.hostname));
}

function encode(answer: HttpAnswer, withBody: boolean, date: Date): Uint8Array {
  const encoder = new TextEncoder();
  const body = encoder.encode(answer.body);
  const fields = {
    Server: SERVER,
    "Content-Type": answer.contentType,
    "X-Content-Type-Options": "nosniff",
    ...answer.fields,
    Date: date.toUTCString(),
    "Content-Length": body.length,
    Connection: "close",
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = encoder.encode(`HTTP/1.1 ${answer.status} ${REASONS[answer.status]}\r\n${lines.join("")}\r\n`);
  if (!withBody) return head;
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  return whole;
}

async function writeAll(connection: Connection, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) written += await connection.write(bytes.subarray(written));
}

async function readToEnd(connection: Connection): Promise<void> {
  const chunk = new Uint8Array(1024);
  while (await connection.read(chunk) !== null);
}
