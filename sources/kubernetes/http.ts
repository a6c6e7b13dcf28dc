import {
  type Clock,
  type ClockAndLogger,
  loadCertificateCheck,
  sleep,
  startReading,
  unlessAborted,
  VERSION,
  withDeadline,
} from "../../platform/mod.ts";
import { ApiError, type ApiRequestOutcome } from "../../core/objects/mod.ts";
import { errorOfFetch, errorOfGarbage, errorOfStatus, type RequestSubject, statusOf, what } from "./api_error.ts";
import type { Credentials, CredentialSource } from "./credentials.ts";
import { createHttpClient, type HttpClient, type HttpRequest } from "./http_client.ts";

/** One request to the API server. */
export interface ApiRequest {
  /** The verb as RBAC names it (`list`, `watch`, `create`), for error messages. */
  readonly verb: string;
  /** The resource as RBAC names it: `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** The path and query after the server's URL, starting with `/`. */
  readonly path: string;
  /** The body; a GET without a body if undefined. */
  readonly body?: ApiRequestBody;
  /** The accepted media types; `application/json` by default. */
  readonly accept?: string;
  /** Called with the headers of a successful answer, before its body. */
  readonly onHeaders?: (headers: Headers) => void;
  /** The maximum silence of the body before the request counts as stalled, in milliseconds. Read again after each chunk. */
  readonly readDeadlineMs: number;
}

interface ApiRequestBody {
  readonly method: "POST" | "PATCH";
  /** `application/json`, or the kind of patch. */
  readonly contentType: string;
  readonly text: string;
}

/** An HTTP client for one API server, with keep-alive connections, credentials, deadlines and classified errors. */
export interface ApiClient {
  /** Scheme, host, port and path prefix of the API server; a changed kubeconfig may replace it. */
  readonly server: string;
  /** Sends a request; `onChunk` gets the body. Throws an ApiError, what `onChunk` throws, or the signal's reason. */
  send(request: ApiRequest, onChunk: (chunk: Uint8Array) => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Options of `createApiClient`. */
export interface ApiClientOptions extends ClockAndLogger {
  readonly credentials: CredentialSource;
  /** The maximum time until the server starts its answer, including the connection, in milliseconds; 30 s by default. */
  readonly responseDeadlineMs?: number;
  /** Opens and closes a TCP connection; a real one by default. */
  readonly connect?: typeof tryToConnect;
  readonly onRequest?: (outcome: ApiRequestOutcome) => void;
}

/** The wait for an answer before checking whether the server is reachable, in milliseconds. */
const PROBE_AFTER_MS = 2_000;
const ERROR_BODY_BYTES = 64 * 1024;

/** A client for the API server of `credentials`. */
export function createApiClient(options: ApiClientOptions): ApiClient {
  const { credentials, clock, logger, connect = tryToConnect } = options;
  const connections = createConnections();

  /** Resolves to false if the server was away and has returned: the request should be repeated immediately. */
  const attempt = async (
    request: ApiRequest,
    onChunk: (chunk: Uint8Array) => void,
    signal: AbortSignal,
  ): Promise<boolean> => {
    const current = await credentials.current(signal);
    const { server } = credentials;
    const subject: RequestSubject = { verb: request.verb, resource: request.resource, server };
    const check = current.certificate === undefined ? undefined : await loadCertificateCheck();
    const named = current.serverName === undefined ? undefined : await import("./named_server.ts");
    const client = connections.clientFor(current, () => createHttpClient(current, check, named?.connectToNamed));
    const deadline = createDeadline(clock, signal);
    const outcome = reportOnce(request, hostOf(server), clock, options.onRequest);
    let hasReturned = false;
    const unanswered = new AbortController();
    const watchForReturn = async () => {
      const probing = AbortSignal.any([deadline.signal, unanswered.signal]);
      await sleep(clock, PROBE_AFTER_MS, probing);
      hasReturned = await serverReturns(current.proxyUrl ?? server, { clock, connect }, probing);
      if (hasReturned) deadline.end();
    };
    try {
      const { responseDeadlineMs = 30_000 } = options;
      deadline.within(responseDeadlineMs, () => timeoutError(subject, "was not answered within", responseDeadlineMs));
      // A request with a body may already have been executed.
      if (request.body === undefined) watchForReturn().catch(() => {});
      const response = await unlessAborted(
        client.send(server + request.path, fetchOptions(request, current, deadline.signal)),
        deadline.signal,
      ).finally(() => unanswered.abort());
      outcome.answered(response);
      await consume(request, subject, response, deadline, clock, (chunk) => {
        outcome.received(chunk);
        onChunk(chunk);
      });
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (hasReturned) {
        connections.drop(client);
        return false;
      }
      // If this connection died unnoticed, so did the idle ones.
      if (deadline.missed()) connections.drop(client);
      throw error instanceof CallerError ? error.cause : errorOfFetch(subject, deadline.missed() ?? error);
    } finally {
      outcome.ended(signal.aborted);
      deadline.end();
    }
  };

  const untilAnswered = async (...args: Parameters<typeof attempt>) => {
    while (!await attempt(...args)) {
      logger.info("API server is reachable again, retrying", { resource: args[0].resource });
    }
  };

  return {
    get server() {
      return credentials.server;
    },
    async send(request, onChunk, signal) {
      try {
        await untilAnswered(request, onChunk, signal);
      } catch (error) {
        const kind = error instanceof ApiError ? error.kind : undefined;
        credentials.failed(kind === "unauthorized" || kind === "credentials");
        if (kind !== "unauthorized") throw error;
        logger.info("API server refused the credentials, reloading them", { error });
        await untilAnswered(request, onChunk, signal);
      }
    },
    close: () => connections.close(),
  };
}

function fetchOptions(
  { body, accept = "application/json" }: ApiRequest,
  { headers }: Credentials,
  signal: AbortSignal,
): HttpRequest {
  return {
    signal,
    redirect: "manual",
    method: body?.method ?? "GET",
    body: body?.text,
    headers: [
      ...headers,
      ...(body ? [["content-type", body.contentType] as [string, string]] : []),
      ["accept", accept],
      ["user-agent", `sluice/${VERSION}`],
    ],
  };
}

/** An error thrown by the caller's `onChunk`, in `cause`. */
class CallerError extends Error {}

/** Passes an answer's body to `onChunk`, and extends the deadline with each chunk. */
async function consume(
  request: ApiRequest,
  subject: RequestSubject,
  response: Response,
  deadline: ReturnType<typeof createDeadline>,
  clock: Clock,
  onChunk: (chunk: Uint8Array) => void,
): Promise<void> {
  const expectMore = () => {
    const { readDeadlineMs } = request;
    deadline.within(readDeadlineMs, () => timeoutError(subject, "went silent for", readDeadlineMs));
  };
  if (response.ok) request.onHeaders?.(response.headers);
  expectMore();
  if (!response.ok) throw await errorOfResponse(subject, response, clock, deadline.signal);
  const contentType = response.headers.get("content-type") ?? "";
  let isFirst = true;
  const yieldAfter = startReading();
  for await (const chunk of chunksOf(response, deadline.signal)) {
    if (isFirst && !looksLikeJson(chunk)) {
      throw errorOfGarbage(subject, contentType, new TextDecoder().decode(chunk.subarray(0, 200)));
    }
    isFirst = false;
    try {
      onChunk(chunk);
    } catch (cause) {
      throw new CallerError("the caller refused the answer", { cause });
    }
    expectMore();
    await yieldAfter(chunk.length);
  }
}

function timeoutError(subject: RequestSubject, problem: string, ms: number): ApiError {
  return new ApiError("timeout", `${what(subject)} ${problem} ${seconds(ms)}`);
}

/** Reports the outcome of a request once: of a watch when it is answered, of others when they end, unless aborted. */
function reportOnce(
  { verb, body }: ApiRequest,
  host: string,
  clock: Clock,
  report: (outcome: ApiRequestOutcome) => void = () => {},
) {
  const startedMs = clock.monotonic();
  const requestBytes = body === undefined ? 0 : new TextEncoder().encode(body.text).length;
  const isWatch = verb === "watch";
  let answer: Response | undefined;
  let bytes = 0;
  const outcome = { method: body?.method ?? "GET", host, requestBytes } as const;
  return {
    answered(response: Response) {
      answer = response;
      if (isWatch) report({ ...outcome, status: response.status, durationMs: undefined, responseBytes: undefined });
    },
    received(chunk: Uint8Array) {
      bytes += chunk.length;
    },
    ended(isAborted: boolean) {
      if (isAborted || isWatch && answer !== undefined) return;
      report({
        ...outcome,
        status: answer?.status,
        durationMs: isWatch ? undefined : clock.monotonic() - startedMs,
        responseBytes: answer?.ok ? bytes : undefined,
      });
    },
  };
}

function hostOf(url: string): string {
  return /^\w+:\/\/(?:[^/@]*@)?([^/]*)/.exec(url)?.[1] ?? "";
}

/** Keeps one HTTP client, with its open connections, until the credentials change. */
function createConnections() {
  let current: { readonly credentials: Credentials; readonly client: HttpClient } | undefined;
  const same = (a: Credentials, b: Credentials) =>
    a.caCerts === b.caCerts && a.certificate === b.certificate && a.key === b.key && a.proxyUrl === b.proxyUrl &&
    a.serverName === b.serverName;
  return {
    clientFor(credentials: Credentials, create: () => HttpClient): HttpClient {
      if (current && same(current.credentials, credentials)) return current.client;
      const client = create();
      current?.client.close();
      current = { credentials, client };
      return client;
    },
    /** Makes the next request open a new connection; those in use stay open. */
    drop(client: HttpClient) {
      if (current?.client === client) this.close();
    },
    close() {
      current?.client.close();
      current = undefined;
    },
  };
}

/** The abort signal of a request: the caller's, or a deadline that is extended as the request proceeds. */
function createDeadline(clock: Clock, signal: AbortSignal) {
  const controller = new AbortController();
  let missed: ApiError | undefined;
  let cancel = () => {};
  const onAbort = () => controller.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    signal: controller.signal,
    within(ms: number, error: () => ApiError) {
      cancel();
      cancel = clock.schedule(ms, () => {
        missed = error();
        controller.abort(missed);
      });
    },
    missed: () => missed,
    end() {
      cancel();
      signal.removeEventListener("abort", onAbort);
      // Releases the connection of an answer that was not read completely.
      controller.abort();
    },
  };
}

/**
 * The chunks of an answer's body. Rejects with the signal's reason as soon as it aborts, which Deno's fetch does not always
 * do after many chunks.
 */
async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { value, done } = await unlessAborted(reader.read(), signal);
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function errorOfResponse(
  subject: RequestSubject,
  response: Response,
  clock: Clock,
  signal: AbortSignal,
): Promise<ApiError> {
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), clock.now());
  const text = await startOfBody(response, signal);
  const contentType = response.headers.get("content-type") ?? "";
  let status;
  try {
    status = statusOf(JSON.parse(text));
  } catch {
    // A load balancer or proxy answers with its own text; the HTTP status is enough.
    if (/^\s*</.test(text) && response.status < 400) return errorOfGarbage(subject, contentType, text);
  }
  const words = text.trim().startsWith("<") ? "an HTML page, probably not from the API server" : text.trim();
  const fallback = { code: response.status, reason: "", message: words.slice(0, 200), causes: [] };
  return errorOfStatus(subject, response.status, status ?? { ...fallback, retryAfterSeconds: undefined }, retryAfterMs);
}

async function startOfBody(response: Response, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunksOf(response, signal)) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > ERROR_BODY_BYTES) break;
  }
  return text;
}

/** Parses a Retry-After header (RFC 9110, 10.2.3), seconds or a date, to milliseconds; undefined without one. */
function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  const waitMs = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - nowMs;
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined;
}

function looksLikeJson(chunk: Uint8Array): boolean {
  const first = chunk.find((byte) => byte > 0x20);
  return first === undefined || first === 0x7b;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 100) / 10} s`;
}

/** A TCP address. */
export interface TcpAddress {
  readonly hostname: string;
  readonly port: number;
}

/** The timeout of a connection attempt, and the pause before the next one, in milliseconds. */
const CONNECT_DEADLINE_MS = 2_000;
const PAUSE_MS = 1_000;

/**
 * Resolves as soon as a TCP connection to the server, or to the proxy in front of it, succeeds: to true if earlier attempts failed, to false if the first one
 * succeeded and the server is only slow. Rejects with the signal's reason.
 *
 * It helps requests that started while the network was down: the kernel repeats a lost SYN only after 1, 3, 7, 15 and 31 s.
 */
export async function serverReturns(
  url: string,
  { clock, connect }: { readonly clock: Clock; readonly connect: typeof tryToConnect },
  signal: AbortSignal,
): Promise<boolean> {
  const address = tcpAddress(url);
  for (let isAway = false;; isAway = true) {
    const late = new Error("no connection");
    const connected = await withDeadline(clock, CONNECT_DEADLINE_MS, late, signal, (signal) => connect(address, signal))
      .then(() => true, () => false);
    signal.throwIfAborted();
    if (connected) return isAway;
    await sleep(clock, PAUSE_MS, signal);
  }
}

/** Opens and closes a TCP connection. Rejects if that fails, or with the signal's reason. */
export async function tryToConnect({ hostname, port }: TcpAddress, signal: AbortSignal): Promise<void> {
  (await Deno.connect({ hostname, port, signal })).close();
}

function tcpAddress(text: string): TcpAddress {
  const { protocol, hostname, port } = new URL(text);
  const standard = protocol === "https:" ? 443 : 80;
  return { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: port === "" ? standard : Number(port) };
}
