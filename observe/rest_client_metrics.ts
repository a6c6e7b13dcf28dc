import type { ApiRequestOutcome } from "./api_request.ts";
import type { Registry } from "./exposition.ts";
import { metricMaker } from "./metric_kinds.ts";

/** client-go's buckets, in seconds. */
const DURATION_BUCKETS: readonly number[] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** client-go's buckets: 64 bytes to 16 MiB. */
const SIZE_BUCKETS: readonly number[] = [
  64,
  256,
  512,
  1024,
  4096,
  16_384,
  65_536,
  262_144,
  1_048_576,
  4_194_304,
  16_777_216,
];

/**
 * Registers client-go's metrics of requests to the API server, with its names and labels; returns the function that
 * records one request.
 */
export function restClientMetrics(registry: Registry): (outcome: ApiRequestOutcome) => void {
  const make = metricMaker(registry, "rest_client_");
  const requests = make.counter("requests_total", "HTTP requests to the API server", ["code", "method", "host"]);
  const byVerb = ["verb", "host"] as const;
  const duration = make.histogram(
    "request_duration_seconds",
    "How long requests took, without watches",
    byVerb,
    DURATION_BUCKETS,
  );
  const requestSize = make.histogram("request_size_bytes", "Sizes of request bodies", byVerb, SIZE_BUCKETS);
  const responseSize = make.histogram("response_size_bytes", "Sizes of response bodies", byVerb, SIZE_BUCKETS);
  return ({ method, host, status, durationMs, requestBytes, responseBytes }) => {
    const labels = { verb: method, host };
    requests.inc({ code: status === undefined ? "<error>" : String(status), method, host });
    if (durationMs !== undefined) duration.observe(labels, durationMs / 1000);
    if (requestBytes > 0) requestSize.observe(labels, requestBytes);
    if (responseBytes !== undefined) responseSize.observe(labels, responseBytes);
  };
}
