import assert from "node:assert/strict";
import { shownUrl, telemetryChoice } from "../../../../features/telemetry/choice.ts";

function choose(env: Readonly<Record<string, string>>) {
  const { endpoints, warnings } = telemetryChoice((name) => env[name]);
  return { urls: Object.fromEntries([...endpoints].map(([signal, { href }]) => [signal, href])), warnings };
}

const BOTH = { metrics: "http://c:4318/v1/metrics", traces: "http://c:4318/v1/traces" };

Deno.test("nothing is exported without an endpoint, nor if the SDK is disabled", () => {
  for (
    const env of [
      {},
      { OTEL_SERVICE_NAME: "a", OTEL_METRICS_EXPORTER: "otlp" },
      { OTEL_EXPORTER_OTLP_ENDPOINT: " " },
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_SDK_DISABLED: "True" },
    ]
  ) assert.deepEqual(choose(env as Record<string, string>), { urls: {}, warnings: [] });
});

Deno.test("the path of a signal is appended to the common endpoint, and an endpoint of its own is used as it is", () => {
  const common = "OTEL_EXPORTER_OTLP_ENDPOINT", own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  assert.deepEqual(choose({ [common]: "http://c:4318" }).urls, BOTH);
  assert.deepEqual(choose({ [common]: "http://c:4318/" }).urls, BOTH);
  assert.deepEqual(choose({ [common]: "https://c/otlp" }).urls, {
    metrics: "https://c/otlp/v1/metrics",
    traces: "https://c/otlp/v1/traces",
  });
  assert.deepEqual(choose({ [own]: "http://d/spans" }).urls, { traces: "http://d/spans" });
  assert.deepEqual(choose({ [common]: "http://c:4318", [own]: "http://d/spans" }).urls, {
    ...BOTH,
    traces: "http://d/spans",
  });
  assert.deepEqual(choose({ [common]: "http://c:4318", OTEL_TRACES_EXPORTER: "none" }), {
    urls: { metrics: BOTH.metrics },
    warnings: [],
  });
});

Deno.test("a signal that cannot be exported as asked is not exported, and a warning names the variable", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318" };
  const warningsOf = (env: Readonly<Record<string, string>>) => {
    const { urls, warnings } = choose(env);
    assert.deepEqual(Object.keys(urls), ["traces"]);
    return warnings;
  };
  assert.deepEqual(warningsOf({ ...endpoint, OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc" }), [
    "metrics are not exported: OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is grpc (use http/protobuf)",
  ]);
  assert.deepEqual(warningsOf({ ...endpoint, OTEL_METRICS_EXPORTER: "prometheus" }), [
    "metrics are not exported: OTEL_METRICS_EXPORTER is prometheus (use otlp or none)",
  ]);
  for (const wrong of ["c:4318", "grpc://user:s3cret@c", "c"]) {
    assert.deepEqual(warningsOf({ ...endpoint, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: wrong }), [
      "metrics are not exported: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is no URL of HTTP (use http://HOST:4318)",
    ]);
  }
});

Deno.test("a program that has no traces neither exports them nor warns of them", () => {
  const env: Readonly<Record<string, string>> = {
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318",
    OTEL_TRACES_EXPORTER: "zipkin",
  };
  const { endpoints, warnings } = telemetryChoice((name) => env[name], ["metrics"]);
  assert.deepEqual([[...endpoints.keys()], warnings], [["metrics"], []]);
});

Deno.test("a URL is shown without its credentials and its query", () => {
  assert.equal(shownUrl(new URL("https://user:s3cret@c:4318/v1/metrics?token=s3cret")), "https://c:4318/v1/metrics");
});
