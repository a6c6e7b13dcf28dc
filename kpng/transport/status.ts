/** The gRPC status codes used here. */
export const STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** Thrown to end a call with a status. */
export class StatusError extends Error {
  override readonly name = "StatusError";
  /** `status` is one of STATUS; the message goes to the client. */
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** The names of the status codes, by number. */
const NAMES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

/** The status of a call that was answered with an HTTP status only (gRPC: http-grpc-status-mapping.md). */
const STATUS_OF_HTTP: Readonly<Record<number, number>> = {
  400: STATUS.internal,
  401: STATUS.unauthenticated,
  403: STATUS.permissionDenied,
  404: STATUS.unimplemented,
  429: STATUS.unavailable,
  502: STATUS.unavailable,
  503: STATUS.unavailable,
  504: STATUS.unavailable,
};

/** Formats a status for a log line: `RESOURCE_EXHAUSTED: too many watchers`. */
export function statusText(code: number, message: string): string {
  const name = NAMES[code] ?? `status ${code}`;
  return message === "" ? name : `${name}: ${message}`;
}

/** Formats an HTTP status that came instead of a gRPC one: `HTTP status 503 (UNAVAILABLE)`. */
export function httpStatusText(httpStatus: number): string {
  return `HTTP status ${httpStatus} (${NAMES[STATUS_OF_HTTP[httpStatus] ?? STATUS.unknown]})`;
}

/** A message as a `grpc-message` header: percent-encoded UTF-8 (gRPC: PROTOCOL-HTTP2.md). */
export function encodeStatusMessage(message: string): string {
  return encodeURIComponent(message).replaceAll("%20", " ");
}

/** The message of a `grpc-message` header; one that is not encoded stays as it is. */
export function decodeStatusMessage(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}
