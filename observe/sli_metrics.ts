import { createRegistry } from "./exposition.ts";
import { metricMaker } from "./metric_kinds.ts";

/** What `/metrics/slis` shows (KEP-3466): the results of the health checks of the server that shows it. */
export interface SliMetrics {
  /** The check of `/healthz` that only says that the process runs has passed. */
  pinged(): void;
  /** Forgets all results, as kube-proxy does at a DELETE. */
  reset(): void;
  /** Everything in Prometheus' text format. */
  expose(): string;
}

const PING = { name: "ping", type: "healthz" } as const;

/** Service level indicators under Kubernetes' names and labels; no results so far. */
export function createSliMetrics(): SliMetrics {
  const registry = createRegistry();
  const make = metricMaker(registry, "kubernetes_");
  const last = make.gauge("healthcheck", "Whether the health check passed when it was last asked for", [
    "name",
    "type",
  ]);
  const all = make.counter("healthchecks_total", "Results of the health check", ["name", "type", "status"]);
  return {
    pinged() {
      last.set(PING, 1);
      all.inc({ ...PING, status: "success" });
    },
    reset: () => registry.reset(),
    expose: () => registry.expose(),
  };
}
