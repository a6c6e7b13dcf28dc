import type { ProxyMode } from "../core/model/mod.ts";
import {
  acceptedType,
  type HttpAnswer,
  type HttpHandler,
  type HttpRequest,
  jsonAnswer,
  localOnly,
  type MediaType,
  route,
  type Routes,
  type RunningServer,
  type ServerOptions,
  startServer,
  textAnswer,
} from "../platform/http/mod.ts";
import { CONTENT_TYPE, counter, createRegistry, gauge } from "../platform/metrics/mod.ts";
import { KUBERNETES_VERSION, loadYaml, timestamp } from "../platform/mod.ts";
import type { Metrics } from "./metrics.ts";

/** Answers the requests for the status page. */
export interface StatusPage {
  /** The page itself. */
  page(request: HttpRequest): Promise<HttpAnswer>;
  /**
   * Returns updates as JSON: `stamp`, which the next request sends as `seen`, and the markup of the `parts` by name.
   * Omits the services if nothing can have changed since `seen`.
   */
  live(request: HttpRequest): Promise<HttpAnswer>;
}

/** Options of `startMetricsServer`. */
export interface MetricsServerOptions extends ServerOptions {
  readonly mode: ProxyMode;
  readonly metrics: Pick<Metrics, "expose">;
  /** The flags by name, for `/flagz`; undefined if that page is disabled. */
  readonly flags: Readonly<Record<string, string>> | undefined;
  /** The start time of the proxy, in milliseconds since 1970, for `/statusz`; undefined if that page is disabled. */
  readonly startedAtMs: number | undefined;
  /** Returns the current configuration as a KubeProxyConfiguration document; called at every request. */
  readonly configuration: () => unknown;
  /** Loads the status page; called at the first request for it. */
  readonly statusPage: () => Promise<StatusPage>;
}

/** The first line of the metrics server's answer at any other path; a list of its paths follows. */
export const KNOWN_PATHS = "not found; known paths:";

/**
 * Starts the metrics server: `/metrics`, `/metrics/slis`, `/proxyMode` (the mode and nothing else), `/configz` (the
 * configuration under kube-proxy's key), `/healthz` (`ok` while the process runs), `/flagz`, `/statusz`, and, for
 * requests from this host only, the status page at `/` with its updates at `/live`. Any other path is a 404 that lists
 * these. With `bindAddressHardFail`, rejects if it cannot listen.
 */
export function startMetricsServer(options: MetricsServerOptions): Promise<RunningServer> {
  const { mode, metrics, configuration, clock, flags, startedAtMs, bindAddress = "" } = options;
  const slis = createSliMetrics();
  let page: Promise<StatusPage> | undefined;
  const load = () =>
    page ??= options.statusPage().catch((error) => {
      page = undefined;
      throw error;
    });
  const exposition = (body: string): HttpAnswer => {
    const fields = { "Process-Start-Time-Unix": String(Math.floor(performance.timeOrigin / 1000)) };
    return { status: 200, contentType: CONTENT_TYPE, fields, body };
  };
  const ofPage = (part: keyof StatusPage) =>
    localOnly(bindAddress, async (request) => await (await load())[part](request));
  const kubeProxyRoutes: Routes = {
    "/configz": () => jsonAnswer(200, { "kubeproxy.config.k8s.io": configuration() }),
    ...flags && {
      "/flagz": pageHandler("Flagz", () => ({
        text: Object.entries(flags).map(([name, value]) => `${name}: ${value}\n`).join(""),
        fields: { flags },
      })),
    },
    "/healthz": ({ query }: HttpRequest) => {
      slis.pinged();
      return textAnswer(200, new URLSearchParams(query).has("verbose") ? "[+]ping ok\nhealthz check passed\n" : "ok");
    },
    "/healthz/ping": () => textAnswer(200, "ok"),
    "/metrics": async () => exposition(await metrics.expose()),
    "/metrics/slis": ({ method }: HttpRequest) => {
      if (method !== "DELETE") return exposition(slis.expose());
      slis.reset();
      return textAnswer(200, "metrics reset\n");
    },
    "/proxyMode": () => textAnswer(200, mode),
  };
  const paths = [...new Set(Object.keys(kubeProxyRoutes).map((path) => /^\/[^/]*/.exec(path)![0]))].sort();
  const routes: Routes = {
    "/": ofPage("page"),
    "/live": ofPage("live"),
    ...kubeProxyRoutes,
    ...startedAtMs !== undefined && {
      "/statusz": pageHandler("Statusz", () => statusz(clock.now(), startedAtMs, paths)),
    },
  };
  const known = Object.keys(routes).map((path) => `  ${path}\n`).join("");
  return startServer("metrics", route(routes, `${KNOWN_PATHS}\n${known}`), options);
}

/** The metrics at `/metrics/slis` (KEP-3466): the results of the metrics server's health check. */
function createSliMetrics() {
  const registry = createRegistry();
  const last = gauge(registry, "kubernetes_healthcheck", "Whether the last health check passed", ["name", "type"]);
  const all = counter(registry, "kubernetes_healthchecks_total", "Results of the health check", [
    "name",
    "type",
    "status",
  ]);
  return {
    /** Records that the check of `/healthz`, which only shows that the process runs, passed. */
    pinged() {
      const ping = { name: "ping", type: "healthz" };
      last.set(ping, 1);
      all.inc({ ...ping, status: "success" });
    },
    /** Resets all results, as kube-proxy does on DELETE. */
    reset: registry.reset,
    expose: registry.expose,
  };
}

/** The component that Sluice replaces: clients look for the pages under its name. */
const COMPONENT = "kube-proxy";
const GROUP = "config.k8s.io";
const VERSIONS = ["v1beta1", "v1alpha1"] as const;
/** Kubernetes 1.37 still serves it, with a warning. */
const DEPRECATED_VERSION = "v1alpha1";

/** A page in its two forms: the text after the title, newlines included, and the fields of the object. */
interface Page {
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The start time of the process, its version, and the other pages of the server (`paths`, sorted). */
function statusz(nowMs: number, startedAtMs: number, paths: readonly string[]): Page {
  const uptimeSeconds = Math.max(0, Math.floor((nowMs - startedAtMs) / 1000));
  const binaryVersion = KUBERNETES_VERSION.replace(/^v/, "");
  const emulationVersion = binaryVersion.replace(/\.\d+$/, "");
  // kube-proxy reports its Go version here.
  const goVersion = `deno${Deno.version.deno}`;
  const startTime = timestamp(startedAtMs);
  return {
    text: `
Started: ${unixDate(startedAtMs)}
Up: ${uptimeText(uptimeSeconds)}
Go version: ${goVersion}
Binary version: ${binaryVersion}
Emulation version: ${emulationVersion}
Paths: ${paths.join(" ")}
`,
    fields: { startTime, uptimeSeconds, goVersion, binaryVersion, emulationVersion, paths },
  };
}

/**
 * Answers with text by default, and with JSON or YAML if the Accept header requests them with the object's group,
 * version and kind, as in Kubernetes. Answers 406 if it offers none of the accepted types.
 */
function pageHandler(kind: "Flagz" | "Statusz", page: () => Page): HttpHandler {
  const name = kind.toLowerCase();
  const title = `\n${COMPONENT} ${name}\nWarning: This endpoint is not meant to be machine parseable, ` +
    "has no formatting compatibility guarantees and is for debugging purposes only.\n";
  const structured = VERSIONS.flatMap((v) =>
    ["application/json", "application/yaml"].map((type) => ({ type, parameters: { g: GROUP, v, as: kind } }))
  );
  const text = { type: "text/plain", parameters: { g: undefined, v: undefined, as: undefined } };
  return async ({ accept }) => {
    const accepted = acceptedType(accept, [text, ...structured]);
    if (accepted === undefined) return notAcceptable([text.type, ...structured.map(fullType)]);
    const { type, parameters: { v: version } } = accepted;
    if (version === undefined) return textAnswer(200, title + page().text);
    const object = { kind, apiVersion: `${GROUP}/${version}`, metadata: { name: COMPONENT }, ...page().fields };
    const body = type === "application/json"
      ? `${JSON.stringify(object)}\n`
      : (await loadYaml()).formatYaml(object, { sortKeys: true });
    const warning = `299 - "This version of the ${name} endpoint is deprecated. Please use a newer version."`;
    const fields = version === DEPRECATED_VERSION ? { Warning: warning } : undefined;
    return { status: 200, contentType: fullType(accepted), fields, body };
  };
}

function fullType({ type, parameters }: MediaType): string {
  return [type, ...Object.entries(parameters).map(([name, value]) => `${name}=${value}`)].join(";");
}

function notAcceptable(offered: readonly string[]): HttpAnswer {
  const message = `only the following media types are accepted: ${offered.join(", ")}`;
  const failure = { status: "Failure", message, reason: "NotAcceptable", code: 406 };
  const body = JSON.stringify({ kind: "Status", apiVersion: "v1", metadata: {}, ...failure }, undefined, 2);
  return { status: 406, contentType: "application/json", body };
}

function uptimeText(seconds: number): string {
  const two = (value: number) => String(value % 60).padStart(2, "0");
  return `${Math.floor(seconds / 3600)} hr ${two(Math.floor(seconds / 60))} min ${two(seconds)} sec`;
}

/** A time as `date` prints it: `Sat Nov  1 09:08:07 UTC 2025`. */
function unixDate(timeMs: number): string {
  const [, weekday, day, month, year, time] = /^(\w+), 0?(\d+) (\w+) (\d+) (\S+) GMT$/.exec(
    new Date(timeMs).toUTCString(),
  )!;
  return `${weekday} ${month} ${day!.padStart(2)} ${time} UTC ${year}`;
}
