import type { ProxyMode } from "../model.ts";
import type { StatusPage } from "../page/mod.ts";
import { type HttpHandler, textAnswer } from "./http.ts";
import { localOnly } from "./local_only.ts";
import type { Metrics } from "./metrics.ts";
import { route, type RunningServer, type ServerOptions, startServer } from "./server.ts";

/** What the metrics server shows. */
export interface MetricsServerOptions extends ServerOptions {
  readonly mode: ProxyMode;
  readonly metrics: Pick<Metrics, "expose" | "contentType">;
  /** The configuration in use as a KubeProxyConfiguration document; asked at every request. */
  readonly configuration: () => unknown;
  /** Called when somebody asks for the status page for the first time: nothing of it is loaded before. */
  readonly statusPage: () => Promise<StatusPage>;
}

/**
 * Starts the server that operators ask: `/metrics`, `/proxyMode` (the mode and nothing else), `/configz` (the
 * configuration under kube-proxy's key), `/healthz` (`ok` while the process runs), and, to this host alone, the status page
 * at `/` with its news at `/live`. Anything else is 404 with the list of these. Rejects where `bindAddressHardFail` says so.
 */
export function startMetricsServer(options: MetricsServerOptions): Promise<RunningServer> {
  const { mode, metrics, configuration, bindAddress = "" } = options;
  let page: Promise<StatusPage> | undefined;
  const load = () =>
    page ??= options.statusPage().catch((error) => {
      page = undefined;
      throw error;
    });
  const ofPage = (part: keyof StatusPage) =>
    localOnly(bindAddress, async (request) => await (await load())[part](request));
  const routes: Readonly<Record<string, HttpHandler>> = {
    "/": ofPage("page"),
    "/live": ofPage("live"),
    "/configz": () => ({
      status: 200,
      contentType: "application/json",
      body: JSON.stringify({ "kubeproxy.config.k8s.io": configuration() }),
    }),
    "/healthz": () => textAnswer(200, "ok"),
    "/metrics": async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.expose() }),
    "/proxyMode": () => textAnswer(200, mode),
  };
  const known = Object.keys(routes).map((path) => `  ${path}\n`).join("");
  return startServer("metrics", route(routes, `not found; there is:\n${known}`), options);
}
