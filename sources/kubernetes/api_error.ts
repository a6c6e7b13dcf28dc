import { ApiError, type ApiErrorKind, isRawObject } from "../../core/objects/mod.ts";
import { errorText } from "../../platform/mod.ts";

/** The request, as named in error messages. */
export interface RequestSubject {
  /** The API's verb: `list`, `watch`, `create`. */
  readonly verb: string;
  /** The resource as RBAC names it: `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** The first Kubernetes version with it, if newer than the oldest that Sluice supports. */
  readonly since?: string;
  /** Scheme, host and port of the API server. */
  readonly server: string;
}

/** A Status object of the API (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status). */
interface ApiStatus {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  /** The reasons of its `details.causes`. */
  readonly causes: readonly string[];
  readonly retryAfterSeconds: number | undefined;
}

/** Reads a Status object; undefined if `raw` is not one. */
export function statusOf(raw: unknown): ApiStatus | undefined {
  if (!isRawObject(raw) || raw.kind !== "Status") return undefined;
  const details = isRawObject(raw.details) ? raw.details : {};
  const causes = Array.isArray(details.causes) ? details.causes.filter(isRawObject) : [];
  return {
    code: typeof raw.code === "number" ? raw.code : 0,
    reason: typeof raw.reason === "string" ? raw.reason : "",
    message: typeof raw.message === "string" ? raw.message : "",
    causes: causes.map((cause) => String(cause.reason)),
    retryAfterSeconds: typeof details.retryAfterSeconds === "number" ? details.retryAfterSeconds : undefined,
  };
}

/** Resources that the cluster role of kube-proxy grants. */
const OF_A_PROXY = ["services", "endpointslices.discovery.k8s.io", "nodes", "servicecidrs.networking.k8s.io", "events"];

/** The error for an HTTP status, or for the Status in a watch's ERROR event. `retryAfterMs` is from the Retry-After header. */
export function errorOfStatus(
  subject: RequestSubject,
  code: number,
  status: ApiStatus | undefined,
  retryAfterMs?: number,
): ApiError {
  const message = status?.message ? `: ${status.message}` : "";
  const requestedMs = retryAfterMs ??
    (status?.retryAfterSeconds === undefined ? undefined : status.retryAfterSeconds * 1000);
  const failed = `${what(subject)} failed with ${code}${status?.reason ? ` ${status.reason}` : ""}${message}`;
  const create = (kind: ApiErrorKind, hint?: string) =>
    new ApiError(kind, hint === undefined ? failed : `${failed}; ${hint}`, { retryAfterMs: requestedMs });
  // An API server that lags behind (or was restored from a backup) answers 504 and names this cause.
  if (code === 410 || status?.reason === "Expired" || status?.causes.includes("ResourceVersionTooLarge")) {
    return create("expired");
  }
  if (code === 401) return create("unauthorized");
  if (code === 403) {
    return create(
      "forbidden",
      `this user needs the verb "${subject.verb}" on "${subject.resource}"` +
        (OF_A_PROXY.includes(subject.resource)
          ? ", which kube-proxy has from the cluster role system:node-proxier"
          : ""),
    );
  }
  if (code === 404) {
    return create(
      "not-found",
      `${subject.server} may not be a Kubernetes API server of version ${subject.since ?? "1.21"} or later`,
    );
  }
  if (code === 409) return create("conflict");
  if (code === 429) return create("throttled");
  if (code >= 300 && code < 400) {
    const why = "it redirects: it is not a Kubernetes API server, or a proxy in front of it asks for a login";
    return create("unavailable", `check the server ${subject.server}: ${why}`);
  }
  if (code >= 500) return create("unavailable");
  return create("rejected");
}

/** The error for a failed `fetch` or a body that broke off; an ApiError is returned unchanged. */
export function errorOfFetch(subject: RequestSubject, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  // Deno has no codes for these: its messages, or the messages of the causes, end with the text of rustls or the system.
  const text = errorText(error);
  const reason = /client error \(\w+\): (.*)/.exec(text)?.[1] ?? text;
  const isEarly = /not valid yet|NotValidYet/i.test(text);
  if (isEarly || /expired/i.test(text)) {
    const whose = text.includes("received fatal alert")
      ? `${subject.server} refused the client certificate of the user in the kubeconfig`
      : `the certificate of ${subject.server} is refused`;
    return new ApiError(
      "certificate-expired",
      `${whose}, which ${isEarly ? "is not valid yet" : "has expired"} (${reason})`,
    );
  }
  if (text.includes("received fatal alert")) {
    return new ApiError(
      "certificate",
      `${subject.server} refused the TLS connection (${reason}): check client-certificate and client-key of the user in ` +
        "the kubeconfig",
    );
  }
  if (/certificate|UnknownIssuer|NotValidForName/i.test(text)) {
    return new ApiError(
      "certificate",
      `the certificate of ${subject.server} is not trusted (${reason}): check certificate-authority in the kubeconfig, ` +
        "and that the server's address is among the certificate's names",
    );
  }
  if (/dns error|failed to lookup|ENOTFOUND/i.test(text)) {
    return new ApiError("dns", `the host name in ${subject.server} cannot be resolved (${reason})`);
  }
  return new ApiError("unreachable", `${what(subject)} got no answer (${reason})`);
}

/** The error for an answer that is not from the Kubernetes API. `start` is the start of its body. */
export function errorOfGarbage(subject: RequestSubject, contentType: string, start: string, cause?: unknown): ApiError {
  const html = /^\s*</.test(start) || contentType.includes("text/html");
  const kind = html ? "HTML" : `${contentType || "untyped"} content`;
  return new ApiError(
    "garbled",
    `${what(subject)} was answered with ${kind} instead of the API's JSON (${JSON.stringify(start.slice(0, 80))}): ` +
      `check that ${subject.server} is an API server and not a proxy or login page`,
    { cause },
  );
}

/** The error for truncated or malformed JSON. */
export function errorOfBrokenJson(subject: RequestSubject, error: SyntaxError): ApiError {
  return new ApiError("garbled", `${what(subject)} was answered with broken JSON (${error.message})`, { cause: error });
}

/** The start of error messages: `list services at https://…`. */
export function what(subject: RequestSubject): string {
  return `${subject.verb} ${subject.resource} at ${subject.server}`;
}
