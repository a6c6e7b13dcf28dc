import { Counter, Gauge, Registry } from "prom-client";

/** What `/metrics/slis` shows (KEP-3466): the results of the health checks of the server that shows it. */
export interface SliMetrics {
  /** The check of `/healthz` that only says that the process runs has passed. */
  pinged(): void;
  /** Forgets all results, as kube-proxy does at a DELETE. */
  reset(): void;
  /** Everything in Prometheus' text format. */
  expose(): Promise<string>;
}

const PING = { name: "ping", type: "healthz" } as const;

/** Service level indicators under Kubernetes' names and labels; no results so far. */
export function createSliMetrics(): SliMetrics {
  const registry = new Registry();
  const registers = [registry];
  const last = new Gauge({
    name: "kubernetes_healthcheck",
    help: "Whether the health check passed when it was last asked for",
    labelNames: ["name", "type"],
    registers,
  });
  const all = new Counter({
    name: "kubernetes_healthchecks_total",
    help: "Results of the health check",
    labelNames: ["name", "type", "status"],
    registers,
  });
  return {
    pinged() {
      last.set(PING, 1);
      all.inc({ ...PING, status: "success" });
    },
    reset: () => registry.resetMetrics(),
    expose: () => registry.metrics(),
  };
}
