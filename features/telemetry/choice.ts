/** The signals to export to an OpenTelemetry collector, from the standard environment variables. */

/** The kinds of data that can be exported. */
export type Signal = "metrics" | "traces";

/** The exports that the environment requests. */
export interface TelemetryChoice {
  /** The signals to export, with the URL that each is sent to. */
  readonly endpoints: ReadonlyMap<Signal, URL>;
  /** The reason why a requested signal is not exported. */
  readonly warnings: readonly string[];
}

/**
 * Reads the environment as OpenTelemetry specifies it, except that nothing is exported unless an endpoint is set
 * (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
 * @param signals the signals that the program exports; all by default
 */
export function telemetryChoice(
  env: (name: string) => string | undefined,
  signals: readonly Signal[] = ["metrics", "traces"],
): TelemetryChoice {
  const endpoints = new Map<Signal, URL>();
  const warnings: string[] = [];
  if (env("OTEL_SDK_DISABLED")?.trim().toLowerCase() === "true") return { endpoints, warnings };
  for (const signal of signals) {
    const name = signal.toUpperCase();
    const given = (suffix: string) =>
      [`OTEL_EXPORTER_OTLP_${name}_${suffix}`, `OTEL_EXPORTER_OTLP_${suffix}`]
        .map((variable) => ({ variable, value: env(variable)?.trim() ?? "" })).find(({ value }) => value !== "");
    const endpoint = given("ENDPOINT");
    const exporter = env(`OTEL_${name}_EXPORTER`)?.trim() || "otlp";
    if (endpoint === undefined || exporter === "none") continue;
    const protocol = given("PROTOCOL");
    const url = urlOf(signal, endpoint);
    const isOtlp = exporter.split(",").some((one) => one.trim() === "otlp");
    if (!isOtlp) {
      warnings.push(`${signal} are not exported: OTEL_${name}_EXPORTER is ${exporter} (use otlp or none)`);
    } else if (protocol !== undefined && protocol.value !== "http/protobuf") {
      warnings.push(`${signal} are not exported: ${protocol.variable} is ${protocol.value} (use http/protobuf)`);
    } else if (url === null || !/^https?:$/.test(url.protocol)) {
      // Without the value, which may contain a password.
      warnings.push(`${signal} are not exported: ${endpoint.variable} is no URL of HTTP (use http://HOST:4318)`);
    } else {
      endpoints.set(signal, url);
    }
  }
  return { endpoints, warnings };
}

/** Returns a URL without parts that may be secret. */
export function shownUrl({ origin, pathname }: URL): string {
  return origin + pathname;
}

/** A path is appended to the endpoint for all signals; the endpoint of a single signal is used as it is. */
function urlOf(signal: Signal, { variable, value }: { readonly variable: string; readonly value: string }): URL | null {
  return variable === "OTEL_EXPORTER_OTLP_ENDPOINT"
    ? URL.parse(`v1/${signal}`, value.endsWith("/") ? value : `${value}/`)
    : URL.parse(value);
}
