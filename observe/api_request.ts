/** The outcome of one HTTP request to the API server, for metrics. */
export interface ApiRequestOutcome {
  readonly method: "GET" | "POST" | "PATCH";
  /** `host:port` of the API server, as in its URL. */
  readonly host: string;
  /** The HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** The duration of the request in milliseconds; undefined for a watch, which is reported when its response begins. */
  readonly durationMs: number | undefined;
  /** The size of the request body. */
  readonly requestBytes: number;
  /** The size of the body of a successful response; undefined for a watch and for other responses. */
  readonly responseBytes: number | undefined;
}
