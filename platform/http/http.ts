/**
 * HTTP for health checks, scrapes, the status page and the control socket: one request a connection, answered at once. It is
 * not Deno.serve's because that has no limits on connections (connection_limits.ts) and no deadline for a request's head: 600
 * clients that send half a request keep 600 connections open for as long as they like. node:http closes none of them
 * either, and needs 5 MB more. With nothing kept alive, nothing holds up a shutdown.
 */
import { canonicalAddress, type Clock, errorText, type Family, familyOf, isLoopback, type Logger } from "../mod.ts";
import { close, type Connection } from "./connection_limits.ts";

/** What was asked for. */
export interface HttpRequest {
  readonly method: string;
  /** Without the query; not percent-decoded. */
  readonly path: string;
  /** What follows the first question mark; empty where there is none. */
  readonly query: string;
  /** The Accept field as it was sent; empty where there is none. */
  readonly accept: string;
  /** The Host field as it was sent, or the host of an absolute target; empty where there is none. */
  readonly host: string;
  /** Whether it comes from this very host: from loopback, or from the address that it was sent to. */
  readonly isFromThisHost: boolean;
  /** The family of the address that it was sent to; undefined for a unix socket. */
  readonly family?: Family;
}

/** What is answered. */
export interface HttpAnswer {
  readonly status: 200 | 400 | 403 | 404 | 405 | 406 | 431 | 500 | 503;
  readonly contentType: string;
  /** Further header fields. */
  readonly fields?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Answers a request. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** What answering needs beside the connection. */
export interface AnswerOptions {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How a program that asks tells Sluice from kube-proxy, which answers at the same ports. */
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

const LONGEST_HEAD = 16 * 1024;
const LONGEST_REQUEST_MS = 10_000;
const LONGEST_LINGER_MS = 1_000;

/** An answer in plain text. */
export function textAnswer(status: HttpAnswer["status"], body: string): HttpAnswer {
  return { status, contentType: TEXT, body };
}

/**
 * Reads one request from `connection`, answers it and closes the connection. Whoever takes more than 10 seconds, or
 * sends more than 16 KiB, is turned away. Never rejects: a client that goes away is no error.
 */
export async function answerConnection(
  connection: Connection,
  handler: HttpHandler,
  { clock, logger }: AnswerOptions,
): Promise<void> {
  let cancelDeadline = clock.schedule(LONGEST_REQUEST_MS, () => close(connection));
  try {
    const request = await readRequest(connection);
    if (request === undefined) return;
    const answer = "status" in request ? request : await answerOf(handler, request, logger);
    const bodyIsWanted = "status" in request || request.method !== "HEAD";
    await writeAll(connection, encode(answer, bodyIsWanted, new Date(clock.now())));
    // Closing with something unread would take the answer back; so wait for the client to have read it.
    await connection.closeWrite();
    cancelDeadline();
    cancelDeadline = clock.schedule(LONGEST_LINGER_MS, () => close(connection));
    await readToEnd(connection);
  } catch (error) {
    logger.trace("an HTTP connection broke off", { error: errorText(error) });
  } finally {
    cancelDeadline();
    close(connection);
  }
}

async function answerOf(handler: HttpHandler, request: HttpRequest, logger: Logger): Promise<HttpAnswer> {
  try {
    return await handler(request);
  } catch (error) {
    logger.error("an HTTP request could not be answered", { path: request.path, error: errorText(error) });
    return textAnswer(500, "internal error, see the log\n");
  }
}

/** A request; or the answer to what is none; or undefined where the client hung up first. */
async function readRequest(connection: Connection): Promise<HttpRequest | HttpAnswer | undefined> {
  const chunk = new Uint8Array(1024);
  const decoder = new TextDecoder("latin1");
  let head = "";
  for (;;) {
    const length = await connection.read(chunk);
    if (length === null) return undefined;
    head += decoder.decode(chunk.subarray(0, length), { stream: true });
    if (/\r?\n\r?\n/.test(head)) return parseHead(head, connection);
    if (head.length > LONGEST_HEAD) return textAnswer(431, "the request's head is longer than 16 KiB\n");
  }
}

function parseHead(head: string, connection: Connection): HttpRequest | HttpAnswer {
  const [, method, target] = /^([A-Z]+) (\S+) HTTP\/1\.[01]\r?\n/.exec(head) ?? [];
  if (method === undefined || target === undefined) return textAnswer(400, "not an HTTP/1 request\n");
  // A proxy's absolute form (RFC 9112, 3.2.2) names the host too.
  const [absolute = "", named] = /^https?:\/\/([^/?]*)/i.exec(target) ?? [];
  const local = target.slice(absolute.length);
  const path = local.replace(/\?.*$/, "");
  const host = named ?? (/^host:(.*)$/im.exec(head)?.[1] ?? "").trim();
  const accept = (/^accept:(.*)$/im.exec(head)?.[1] ?? "").trim();
  return {
    method,
    path: path === "" ? "/" : path,
    query: local.slice(path.length + 1),
    accept,
    host,
    isFromThisHost: isFromThisHost(connection),
    family: familyAsked(connection),
  };
}

/** An IPv4 address that comes as an IPv4-mapped IPv6 one is of IPv4. */
function familyAsked({ localAddr }: Connection): Family | undefined {
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
