import { createRegistry } from "./exposition.ts";
import { metricMaker } from "./metric_kinds.ts";

/** The metrics at `/metrics/slis` (KEP-3466): the results of the metrics server's health check. */
export interface SliMetrics {
  /** Records that the check of `/healthz`, which only shows that the process runs, passed. */
  pinged(): void;
  /** Resets all results, as kube-proxy does on DELETE. */
  reset(): void;
  /** Returns all metrics in Prometheus' text format. */
  expose(): string;
}

const PING = { name: "ping", type: "healthz" } as const;

/** Creates service level indicators with Kubernetes' names and labels. */
export function createSliMetrics(): SliMetrics {
  const registry = createRegistry();
  const make = metricMaker(registry, "kubernetes_");
  const last = make.gauge("healthcheck", "Whether the last health check passed", [
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
