import { type Clock, errorText, type Logger, sleep, unlessAborted, VERSION } from "../../platform/mod.ts";
import {
  ApiError,
  errorOfFetch,
  errorOfGarbage,
  errorOfStatus,
  type RequestSubject,
  statusOf,
  what,
} from "./api_error.ts";
import type { ApiRequestOutcome } from "../../observe/mod.ts";
import type { Credentials, CredentialSource } from "./credentials.ts";
import { serverReturns, tryToConnect } from "./return_of_server.ts";

/** One request to the API server. */
export interface ApiRequest {
  /** `list`, `watch`, `create` …: for error messages, as RBAC names it. */
  readonly verb: string;
  /** The resource as RBAC names it: `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** The path and query after the server's URL, from its `/` on. */
  readonly path: string;
  /** What is sent with it; nothing, by GET, where it is undefined. */
  readonly body?: ApiRequestBody;
  /** The media types that are accepted; `application/json` by default. */
  readonly accept?: string;
  /** Takes the headers of a successful answer, before its body. */
  readonly onHeaders?: (headers: Headers) => void;
  /**
   * How long silence may last in the body before the request counts as stalled, in milliseconds. Read anew for each chunk,
   * when it has been handed on.
   */
  readonly readDeadlineMs: number;
}

/** What a request carries that changes or asks something. */
export interface ApiRequestBody {
  readonly method: "POST" | "PATCH";
  /** `application/json`, or the kind of patch. */
  readonly contentType: string;
  readonly text: string;
}

/** The traffic with one API server: keep-alive connections, credentials, deadlines, and failures made understandable. */
export interface ApiClient {
  /** Scheme, host, port and path prefix of the API server. */
  readonly server: string;
  /**
   * Sends a request and hands each chunk of a successful answer's body to `onChunk` until it ends. Throws an ApiError,
   * what `onChunk` throws, or the signal's reason.
   */
  send(request: ApiRequest, onChunk: (chunk: Uint8Array) => void, signal: AbortSignal): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** What the client is made of. */
export interface ApiClientOptions {
  readonly credentials: CredentialSource;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long the server may take to begin an answer, connecting included, in milliseconds; 30 s by default. */
  readonly responseDeadlineMs?: number;
  /** Opens a TCP connection and closes it; one of the system's by default. */
  readonly connect?: typeof tryToConnect;
  /** Told of every request that is sent. */
  readonly onRequest?: (outcome: ApiRequestOutcome) => void;
}

/** After how long without an answer it is looked whether the server can be reached, in milliseconds. */
const DOUBT_AFTER_MS = 2_000;
const ERROR_BODY_BYTES = 64 * 1024;

/** A client for the API server that `credentials` names. */
export function createApiClient(options: ApiClientOptions): ApiClient {
  const { credentials, clock, logger, responseDeadlineMs = 30_000, connect = tryToConnect } = options;
  const connections = createConnections();
  const host = hostOf(credentials.server);

  /** Resolves to false where the server was away and can be reached again: the request is to be repeated at once. */
  const attempt = async (
    request: ApiRequest,
    onChunk: (chunk: Uint8Array) => void,
    signal: AbortSignal,
  ): Promise<boolean> => {
    const subject: RequestSubject = { verb: request.verb, resource: request.resource, server: credentials.server };
    const current = await credentials.current(signal);
    const check = current.certificate === undefined ? undefined : await loadCertificateCheck();
    const client = connections.clientFor(current, check);
    const deadline = createDeadline(clock, signal);
    const told = tellOnce(request, host, clock, options.onRequest);
    let refusedByCaller = false;
    let hasReturned = false;
    const unanswered = new AbortController();
    const watchForReturn = async () => {
      const doubting = AbortSignal.any([deadline.signal, unanswered.signal]);
      await sleep(clock, DOUBT_AFTER_MS, doubting);
      hasReturned = await serverReturns({ url: current.proxyUrl ?? credentials.server, clock, connect }, doubting);
      if (hasReturned) deadline.end();
    };
    try {
      deadline.within(responseDeadlineMs, () =>
        new ApiError(
          "timeout",
          `${what(subject)} was not answered within ${seconds(responseDeadlineMs)}; the request is repeated`,
        ));
      // What has a body may have arrived.
      if (request.body === undefined) watchForReturn().catch(() => {});
      const response = await unlessAborted(
        fetch(credentials.server + request.path, {
          client,
          signal: deadline.signal,
          redirect: "manual",
          method: request.body?.method ?? "GET",
          body: request.body?.text,
          headers: [
            ...current.headers,
            ...(request.body ? [["content-type", request.body.contentType] as [string, string]] : []),
            ["accept", request.accept ?? "application/json"],
            ["user-agent", `sluice/${VERSION}`],
          ],
        }),
        deadline.signal,
      ).finally(() => unanswered.abort());
      const expectMore = () => {
        const { readDeadlineMs } = request;
        deadline.within(readDeadlineMs, () =>
          new ApiError(
            "timeout",
            `${what(subject)} went silent for ${seconds(readDeadlineMs)}; the request is repeated`,
          ));
      };
      told.answered(response);
      if (response.ok) request.onHeaders?.(response.headers);
      expectMore();
      if (!response.ok) throw await errorOfResponse(subject, response, clock, deadline.signal);
      const contentType = response.headers.get("content-type") ?? "";
      let first = true;
      for await (const chunk of chunksOf(response, deadline.signal)) {
        if (first && !looksLikeJson(chunk)) {
          throw errorOfGarbage(subject, contentType, new TextDecoder().decode(chunk.subarray(0, 200)));
        }
        first = false;
        told.received(chunk);
        try {
          onChunk(chunk);
        } catch (error) {
          refusedByCaller = true;
          throw error;
        }
        expectMore();
      }
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (hasReturned) {
        connections.leave(client);
        return false;
      }
      // Where this connection died unnoticed, those that rest have died with it.
      if (deadline.missed()) connections.leave(client);
      throw refusedByCaller ? error : errorOfFetch(subject, deadline.missed() ?? error);
    } finally {
      told.ended(signal.aborted);
      deadline.end();
    }
  };

  const untilAnswered = async (...args: Parameters<typeof attempt>) => {
    while (!await attempt(...args)) {
      logger.info("the API server can be reached again; the request is repeated", { resource: args[0].resource });
    }
  };

  return {
    server: credentials.server,
    async send(request, onChunk, signal) {
      try {
        await untilAnswered(request, onChunk, signal);
      } catch (error) {
        if (!(error instanceof ApiError) || error.kind !== "unauthorized") throw error;
        logger.info("the API server refused the credentials; they are read again", { error });
        credentials.refused();
        await untilAnswered(request, onChunk, signal);
      }
    },
    close: () => connections.close(),
  };
}

/** Tells how a request went: a watch when it is answered, others when they have ended, but for those that were called off. */
function tellOnce(
  { verb, body }: ApiRequest,
  host: string,
  clock: Clock,
  tell: (outcome: ApiRequestOutcome) => void = () => {},
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
      if (isWatch) tell({ ...outcome, status: response.status, durationMs: undefined, responseBytes: undefined });
    },
    received(chunk: Uint8Array) {
      bytes += chunk.length;
    },
    ended(isCalledOff: boolean) {
      if (isCalledOff || isWatch && answer !== undefined) return;
      tell({
        ...outcome,
        status: answer?.status,
        durationMs: isWatch ? undefined : clock.monotonic() - startedMs,
        responseBytes: answer?.ok ? bytes : undefined,
      });
    },
  };
}

/** The `host:port` of a URL, as it is written there. */
function hostOf(url: string): string {
  return /^\w+:\/\/(?:[^/@]*@)?([^/]*)/.exec(url)?.[1] ?? "";
}

/** The HTTP client for the current credentials: the same one, with its open connections, until they change. */
function createConnections() {
  let made: { readonly credentials: Credentials; readonly client: Deno.HttpClient } | undefined;
  const same = (a: Credentials, b: Credentials) =>
    a.caCerts === b.caCerts && a.certificate === b.certificate && a.key === b.key && a.proxyUrl === b.proxyUrl;
  return {
    clientFor(credentials: Credentials, check: CertificateCheck | undefined): Deno.HttpClient {
      if (made && same(made.credentials, credentials)) return made.client;
      const client = makeClient(credentials, check);
      made?.client.close();
      made = { credentials, client };
      return client;
    },
    /** The next request opens a connection of its own; those that are in use stay so. */
    leave(client: Deno.HttpClient) {
      if (made?.client === client) this.close();
    },
    close() {
      made?.client.close();
      made = undefined;
    },
  };
}

/** Throws where a client certificate and its key cannot be used. */
type CertificateCheck = (certificate: string, key: string) => void;

/** Loads the check, and `node:crypto` with it, which takes megabytes of memory. */
async function loadCertificateCheck(): Promise<CertificateCheck> {
  const { checkClientCertificate } = await import("./client_certificate.ts");
  return checkClientCertificate;
}

function makeClient(credentials: Credentials, check: CertificateCheck | undefined): Deno.HttpClient {
  const { caCerts, certificate, key, proxyUrl } = credentials;
  try {
    const common: Deno.CreateHttpClientOptions = {
      // With HTTP/1.1 every watch has a connection of its own: one that hangs is closed with its watch, where over
      // HTTP/2 the next request would be put onto the same dead connection.
      http2: false,
      ...(caCerts === undefined ? {} : { caCerts: [caCerts] }),
      ...(proxyUrl === undefined ? {} : { proxy: { url: proxyUrl } }),
    };
    if (certificate === undefined || key === undefined) return Deno.createHttpClient(common);
    check?.(certificate, key);
    return Deno.createHttpClient({ ...common, cert: certificate, key });
  } catch (error) {
    throw new ApiError(
      "credentials",
      `the credentials for the API server cannot be used: ${errorText(error)}; they are read again at the next try`,
      { cause: error },
    );
  }
}

/** One request's abort signal: the caller's, or a deadline that is set anew as the request goes on. */
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
      // Gives back the connection of an answer that was not read to its end.
      controller.abort();
    },
  };
}

/**
 * The chunks of an answer's body. Rejects with the signal's reason as soon as it is aborted: the platform's own fetch
 * does not always, where a body came in many chunks before.
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
    // A load balancer or proxy answers in words of its own; the HTTP status says enough for it.
    if (/^\s*</.test(text) && response.status < 400) return errorOfGarbage(subject, contentType, text);
  }
  const words = text.trim().startsWith("<") ? "an HTML page, so perhaps not from the API server" : text.trim();
  const fallback = { code: response.status, reason: "", message: words.slice(0, 200), causes: [] };
  return errorOfStatus(
    subject,
    response.status,
    status ?? { ...fallback, retryAfterSeconds: undefined },
    retryAfterMs,
  );
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

/** Milliseconds to wait by a Retry-After header (RFC 9110, 10.2.3), in seconds or a date; undefined without one. */
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
