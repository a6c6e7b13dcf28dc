import type { ProxyMode } from "../core/model/mod.ts";
import {
  type HttpAnswer,
  type HttpRequest,
  localOnly,
  route,
  type Routes,
  type RunningServer,
  type ServerOptions,
  startServer,
  textAnswer,
} from "../platform/http/mod.ts";
import type { Metrics } from "./metrics.ts";
import type { SliMetrics } from "./sli_metrics.ts";
import { flagzHandler, statuszHandler } from "./zpages.ts";

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
  readonly metrics: Pick<Metrics, "expose" | "contentType">;
  /** The metrics at `/metrics/slis`. */
  readonly slis: SliMetrics;
  /** The flags by name, for `/flagz`; undefined if that page is disabled. */
  readonly flags: Readonly<Record<string, string>> | undefined;
  /** The start time of the proxy, in milliseconds since 1970, for `/statusz`; undefined if that page is disabled. */
  readonly startedAtMs: number | undefined;
  /** Returns the current configuration as a KubeProxyConfiguration document; called at every request. */
  readonly configuration: () => unknown;
  /** Loads the status page; called at the first request for it. */
  readonly statusPage: () => Promise<StatusPage>;
}

/**
 * Starts the metrics server: `/metrics`, `/metrics/slis`, `/proxyMode` (the mode and nothing else), `/configz` (the
 * configuration under kube-proxy's key), `/healthz` (`ok` while the process runs), `/flagz`, `/statusz`, and, for
 * requests from this host only, the status page at `/` with its updates at `/live`. Any other path is a 404 that lists
 * these. With `bindAddressHardFail`, rejects if it cannot listen.
 */
export function startMetricsServer(options: MetricsServerOptions): Promise<RunningServer> {
  const { mode, metrics, slis, configuration, clock, flags, startedAtMs, bindAddress = "" } = options;
  let page: Promise<StatusPage> | undefined;
  const load = () =>
    page ??= options.statusPage().catch((error) => {
      page = undefined;
      throw error;
    });
  const ofPage = (part: keyof StatusPage) =>
    localOnly(bindAddress, async (request) => await (await load())[part](request));
  const kubeProxyRoutes: Routes = {
    "/configz": () => ({
      status: 200,
      contentType: "application/json",
      body: JSON.stringify({ "kubeproxy.config.k8s.io": configuration() }),
    }),
    ...flags && { "/flagz": flagzHandler(() => flags) },
    "/healthz": () => {
      slis.pinged();
      return textAnswer(200, "ok");
    },
    "/metrics": async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.expose() }),
    "/metrics/slis": async ({ method }: HttpRequest) => {
      if (method !== "DELETE") return { status: 200, contentType: metrics.contentType, body: await slis.expose() };
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
    ...startedAtMs !== undefined && { "/statusz": statuszHandler({ clock, startedAtMs, paths }) },
  };
  const known = Object.keys(routes).map((path) => `  ${path}\n`).join("");
  return startServer("metrics", route(routes, `not found; known paths:\n${known}`), options);
}
