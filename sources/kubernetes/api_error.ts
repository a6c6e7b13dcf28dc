import { errorText } from "../../platform/mod.ts";

/** What kind of trouble a request met, which decides what is done next. */
export type ApiErrorKind =
  | "credentials" // they cannot be read, or make no usable client: read again at the next try
  | "certificate" // the server's certificate is not trusted, or the client's is refused
  | "unreachable" // no connection: refused, no route, broken off
  | "dns"
  | "timeout" // no answer, or silence in mid-answer
  | "unauthorized" // 401: credentials are read again
  | "forbidden" // 403
  | "not-found" // 404
  | "expired" // 410, or a resourceVersion that the server does not have: everything is listed anew
  | "throttled" // 429: as long a wait as the server asks for
  | "unavailable" // 5xx
  | "rejected" // any other status
  | "garbled"; // not what the Kubernetes API answers: HTML, half a line of JSON

/** Why a request to the API server failed; its message says what happened, to which request, and what happens next. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly kind: ApiErrorKind;
  /** How long the server asks to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: ApiErrorKind,
    message: string,
    options: { readonly retryAfterMs?: number; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** What a request is for, as error messages name it. */
export interface RequestSubject {
  /** The API's verb: `list`, `watch`, `create`. */
  readonly verb: string;
  /** The resource as RBAC names it: `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** The version of Kubernetes that began to have it, where that is not as old as what Sluice needs. */
  readonly since?: string;
  /** Scheme, host and port of the API server. */
  readonly server: string;
}

/** A Status object of the API (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status). */
export interface ApiStatus {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  /** The reasons of its `details.causes`. */
  readonly causes: readonly string[];
  readonly retryAfterSeconds: number | undefined;
}

/** A Status object, or undefined where `raw` is none. */
export function statusOf(raw: unknown): ApiStatus | undefined {
  if (!isRecord(raw) || raw.kind !== "Status") return undefined;
  const details = isRecord(raw.details) ? raw.details : {};
  const causes = Array.isArray(details.causes) ? details.causes.filter(isRecord) : [];
  return {
    code: typeof raw.code === "number" ? raw.code : 0,
    reason: typeof raw.reason === "string" ? raw.reason : "",
    message: typeof raw.message === "string" ? raw.message : "",
    causes: causes.map((cause) => String(cause.reason)),
    retryAfterSeconds: typeof details.retryAfterSeconds === "number" ? details.retryAfterSeconds : undefined,
  };
}

/**
 * The error that an HTTP status, or the Status object in a watch's ERROR event, stands for. `code` is the HTTP
 * status; `retryAfterMs` what the answer's Retry-After header asks for.
 */
export function errorOfStatus(
  subject: RequestSubject,
  code: number,
  status: ApiStatus | undefined,
  retryAfterMs?: number,
): ApiError {
  const said = status?.message ? `: ${status.message}` : "";
  const asked = retryAfterMs ??
    (status?.retryAfterSeconds === undefined ? undefined : status.retryAfterSeconds * 1000);
  const failed = `${what(subject)} failed with ${code}${status?.reason ? ` ${status.reason}` : ""}${said}`;
  // What is listed and watched is asked for until it works; what is sent once is its sender's to repeat.
  const isRepeated = subject.verb === "list" || subject.verb === "watch";
  const make = (kind: ApiErrorKind, next: string, hint?: string) => {
    const parts = [failed, ...(hint === undefined ? [] : [hint]), ...(isRepeated ? [next] : [])];
    return new ApiError(kind, parts.join("; "), { retryAfterMs: asked });
  };
  // An API server that lags behind (or was restored from a backup) answers 504 and names this cause.
  if (code === 410 || status?.reason === "Expired" || status?.causes.includes("ResourceVersionTooLarge")) {
    return make("expired", "everything is listed anew");
  }
  if (code === 401) return make("unauthorized", "the credentials are read again and the request is repeated");
  if (code === 403) {
    return make(
      "forbidden",
      "the request is repeated in case it is granted",
      `this user needs the verb "${subject.verb}" on "${subject.resource}", which kube-proxy has from the cluster role ` +
        "system:node-proxier",
    );
  }
  if (code === 404) {
    return make(
      "not-found",
      "the request is repeated",
      `perhaps ${subject.server} is no Kubernetes API server of ${subject.since ?? "1.21"} or newer`,
    );
  }
  if (code === 429) return make("throttled", "the request is repeated after the wait that the server asks for");
  if (code >= 500) return make("unavailable", "the request is repeated");
  return make("rejected", "the request is repeated");
}

/** The error that a failed `fetch`, or a body that broke off, stands for; an ApiError stays what it is. */
export function errorOfFetch(subject: RequestSubject, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  // Deno has no codes for these: its messages, or in newer versions their causes', end in rustls's or the system's words.
  const text = errorText(error);
  const reason = /client error \(\w+\): (.*)/.exec(text)?.[1] ?? text;
  if (text.includes("received fatal alert")) {
    return new ApiError(
      "certificate",
      `${subject.server} refused the TLS connection (${reason}): check client-certificate and client-key of the user in ` +
        "the kubeconfig; the request is repeated",
    );
  }
  if (/certificate|UnknownIssuer|NotValidForName/i.test(text)) {
    return new ApiError(
      "certificate",
      `the certificate of ${subject.server} is not trusted (${reason}): check certificate-authority in the kubeconfig, ` +
        "and that the server's address is among the certificate's names; the request is repeated",
    );
  }
  if (/dns error|failed to lookup/i.test(text)) {
    return new ApiError("dns", `the name in ${subject.server} cannot be resolved (${reason}); the request is repeated`);
  }
  return new ApiError("unreachable", `${what(subject)} got no answer (${reason}); the request is repeated`);
}

/** The error for an answer that is not the API's. `start` is how it begins. */
export function errorOfGarbage(subject: RequestSubject, contentType: string, start: string, cause?: unknown): ApiError {
  const html = /^\s*</.test(start) || contentType.includes("text/html");
  const kind = html ? "HTML" : `${contentType || "untyped"} content`;
  return new ApiError(
    "garbled",
    `${what(subject)} was answered with ${kind} instead of the API's JSON (${JSON.stringify(start.slice(0, 80))}): ` +
      `is ${subject.server} an API server, or a proxy or login page in front of one? The request is repeated`,
    { cause },
  );
}

/** The error for JSON that breaks off, or is none. */
export function errorOfBrokenJson(subject: RequestSubject, error: SyntaxError): ApiError {
  return new ApiError(
    "garbled",
    `${what(subject)} was answered with broken JSON (${error.message}); everything is listed anew`,
    { cause: error },
  );
}

/** `list services at https://…`, as messages start. */
export function what(subject: RequestSubject): string {
  return `${subject.verb} ${subject.resource} at ${subject.server}`;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
