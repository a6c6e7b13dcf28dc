/**
 * Minimal HTTP/1 server for health checks, scrapes, the status page and the control socket: one request per connection, no
 * keep-alive, so that nothing delays a shutdown. Deno.serve has no connection limits (connection_limits.ts) and no timeout
 * for the request head: 600 clients that send half a request keep 600 connections open indefinitely. node:http does not
 * close them either and needs 5 MB more.
 */
import {
  canonicalAddress,
  type Clock,
  errorText,
  type Family,
  familyOf,
  isLoopback,
  joinBytes,
  joinHostPort,
  type Logger,
  splitHostPort,
} from "../mod.ts";
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
  /**
   * Whether the client is certainly on this host: its address is loopback. This host's other addresses prove nothing, since the
   * relay of userspace mode, or any proxy on this host, connects from them for clients elsewhere.
   */
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

/** Returns a response in JSON. */
export function jsonAnswer(status: HttpAnswer["status"], value: unknown): HttpAnswer {
  return { status, contentType: "application/json", body: JSON.stringify(value) };
}

/**
 * Reads one request from `connection`, answers it and closes the connection. Rejects requests that take longer than 10
 * seconds or whose head exceeds 16 KiB. Never throws: a client that disconnects is not an error.
 */
export async function answerConnection(
  connection: Connection,
  handler: HttpHandler,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
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

function isFromThisHost({ remoteAddr }: Connection): boolean {
  if (remoteAddr.transport !== "tcp") return remoteAddr.transport === "unix";
  const from = canonicalAddress(remoteAddr.hostname);
  return from !== undefined && isLoopback(from);
}

function encode(answer: HttpAnswer, withBody: boolean, date: Date): Uint8Array {
  const encoder = new TextEncoder();
  const body = encoder.encode(answer.body);
  const fields = {
    "Content-Type": answer.contentType,
    "X-Content-Type-Options": "nosniff",
    ...answer.fields,
    Date: date.toUTCString(),
    "Content-Length": body.length,
    Connection: "close",
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = encoder.encode(`HTTP/1.1 ${answer.status} ${REASONS[answer.status]}\r\n${lines.join("")}\r\n`);
  return withBody ? joinBytes([head, body]) : head;
}

async function writeAll(connection: Connection, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) written += await connection.write(bytes.subarray(written));
}

async function readToEnd(connection: Connection): Promise<void> {
  const chunk = new Uint8Array(1024);
  while (await connection.read(chunk) !== null);
}

/**
 * Restricts a handler to read requests over loopback whose Host header unambiguously names this host: `localhost` or a loopback
 * address. That stops DNS rebinding (a foreign page whose name resolves to this host), clients on the network, also behind a
 * proxy on this host, and requests that could change something.
 * @param bindAddress the address and port of the server
 */
export function localOnly(bindAddress: string, handler: HttpHandler): HttpHandler {
  const { address: own, port } = splitHostPort(bindAddress);
  return (request) => refusal(request, own, port) ?? handler(request);
}

function refusal({ method, host, isFromThisHost }: HttpRequest, own: string, port: number): HttpAnswer | undefined {
  if (method !== "GET" && method !== "HEAD") return textAnswer(405, "read-only: use GET or HEAD\n");
  if (isFromThisHost && isLocalName(host)) return undefined;
  const hasLoopback = isLoopback(own) || own === "0.0.0.0" || own === "::";
  const why = isFromThisHost
    ? `the Host header is ${JSON.stringify(host.slice(0, 100))}`
    : "the request does not come over a loopback address";
  return textAnswer(
    403,
    `The status page is available at a loopback address of the node only, and ${why}.\n` +
      (hasLoopback ? waysIn(isLoopback(own) ? joinHostPort(own, port) : `localhost:${port}`, port) : closed(own, port)),
  );
}

/** How to open the page at a loopback address. */
function waysIn(at: string, port: number): string {
  return `Open http://${at}/ there, or http://localhost:${port}/ elsewhere through a tunnel:\n\n` +
    `  ssh -L ${port}:${at} NODE\n`;
}

/** How to make a server listen at a loopback address. */
function closed(own: string, port: number): string {
  return `This server listens at ${own} alone: to open the page, set metricsBindAddress to 127.0.0.1:${port} or 0.0.0.0:${port}.\n`;
}

/** Whether a Host header, with or without a port, names a loopback address and cannot name another. */
function isLocalName(host: string): boolean {
  const name = host.toLowerCase().replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  if (name === "localhost") return true;
  const address = canonicalAddress(name);
  return address !== undefined && isLoopback(address);
}

/** A representation that a handler offers: its media type, and parameters of a request, undefined for those it must not have. */
export interface MediaType {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string | undefined>>;
}

/**
 * Returns the offered media type that an Accept header (RFC 9110, 12.5.1) prefers; without the header, the first one. The
 * parameters of an offered type must be the header's. Others are ignored, as in Kubernetes.
 */
export function acceptedType<Type extends MediaType>(accept: string, offered: readonly Type[]): Type | undefined {
  if (accept.trim() === "") return offered[0];
  const byQuality = accept.split(",").map(readRange).toSorted((a, b) => b.quality - a.quality);
  return byQuality.map((range) => offered.find((type) => isAllowed(type, range))).find((type) => type !== undefined);
}

interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

function readRange(text: string): MediaRange {
  const [type = "", ...rest] = text.split(";").map((part) => part.trim());
  const parameters = new Map(rest.map((part) => {
    const [name = "", value = ""] = part.split("=", 2);
    return [name.trim().toLowerCase(), value.trim().replace(/^"(.*)"$/, "$1")] as const;
  }));
  const quality = Number(parameters.get("q") ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isFinite(quality) ? quality : 0 };
}

function isAllowed({ type, parameters }: MediaType, { type: accepted, parameters: given }: MediaRange): boolean {
  const matches = accepted === type || accepted === "*/*" || accepted === type.replace(/\/.*/, "/*");
  return matches && Object.entries(parameters).every(([name, value]) => given.get(name) === value);
}
