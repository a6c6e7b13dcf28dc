/** The gRPC status codes used here. */
export const STATUS = {
  ok: 0,
  invalidArgument: 3,
  resourceExhausted: 8,
  unimplemented: 12,
  unavailable: 14,
} as const;

const NAMES: Readonly<Record<number, string>> = {
  1: "cancelled",
  2: "unknown",
  3: "invalid argument",
  4: "deadline exceeded",
  5: "not found",
  7: "permission denied",
  8: "resource exhausted",
  12: "unimplemented",
  13: "internal",
  14: "unavailable",
  16: "unauthenticated",
};

/** Formats a status for a log line: `resource exhausted: too many watchers`. */
export function statusText(code: number, message: string): string {
  const name = NAMES[code] ?? `status ${code}`;
  return message === "" ? name : `${name}: ${message}`;
}
