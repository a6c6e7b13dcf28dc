/** How one HTTP request to the API server went, for those who count. */
export interface ApiRequestOutcome {
  readonly method: "GET" | "POST" | "PATCH";
  /** `host:port` of the API server, as its URL has it. */
  readonly host: string;
  /** The HTTP status; undefined where there was no answer. */
  readonly status: number | undefined;
  /** How long it took from beginning to end, in milliseconds; undefined for a watch, which is told when it is answered. */
  readonly durationMs: number | undefined;
  /** The length of what was sent with it. */
  readonly requestBytes: number;
  /** The length of what was read of a successful answer; undefined for a watch and for other answers. */
  readonly responseBytes: number | undefined;
}
