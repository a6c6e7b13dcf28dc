import type { Clock } from "../platform/mod.ts";
import { type HttpAnswer, route, type RunningServer, type ServerOptions, startServer } from "../platform/http/mod.ts";
import type { ProxyHealth } from "./proxy_health.ts";

/** A question about health. */
export type HealthEndpoint = "healthz" | "livez";

/** What the health server needs. */
export interface HealthzServerOptions extends ServerOptions {
  readonly health: ProxyHealth;
  /** Told of every answer, for the metrics. */
  readonly onAnswer: (endpoint: HealthEndpoint, code: number) => void;
}

/** Go's zero time: what kube-proxy answers for a time that has not come yet. */
const NEVER = "0001-01-01T00:00:00Z";

/**
 * Starts the server that load balancers and the kubelet ask: `/healthz` is 503 until the first rules are in effect, when the
 * proxy does not keep up, and when the node is leaving; `/livez` only when the proxy does not keep up (KEP-3836). Rejects
 * where `bindAddressHardFail` says so.
 */
export function startHealthzServer(options: HealthzServerOptions): Promise<RunningServer> {
  const { health, clock, onAnswer } = options;
  const answerAt = (endpoint: HealthEndpoint, isForTraffic: boolean) => (): HttpAnswer => {
    const answer = healthAnswer(health, clock, isForTraffic);
    onAnswer(endpoint, answer.status);
    return answer;
  };
  const routes = { "/healthz": answerAt("healthz", true), "/livez": answerAt("livez", false) };
  return startServer("health", route(routes, "404 page not found\n"), options);
}

/**
 * The fields are those of kube-proxy's ProxyHealth, in its order; `healthy` is the proxy's alone, and `lastUpdated` is
 * the current time when all is well. A family whose worker is down has a `reason` besides.
 */
function healthAnswer(health: ProxyHealth, clock: Clock, isForTraffic: boolean): HttpAnswer {
  const status = health.status();
  const nodeEligible = health.nodeEligible();
  const healthy = status.healthy && (status.inEffect || !isForTraffic);
  const ok = healthy && (nodeEligible || !isForTraffic);
  const families = status.families.map(({ family, lastUpdatedMs, healthy, reason }) =>
    [family, { lastUpdated: timeText(lastUpdatedMs), healthy, reason }] as const
  );
  const currentTime = timeText(clock.now());
  return {
    status: ok ? 200 : 503,
    contentType: "application/json",
    body: JSON.stringify({
      lastUpdated: ok ? currentTime : timeText(status.lastUpdatedMs),
      currentTime,
      nodeEligible: isForTraffic ? nodeEligible : undefined,
      healthy,
      status: families.length === 0 ? undefined : Object.fromEntries(families),
    }),
  };
}

function timeText(timeMs: number | undefined): string {
  return timeMs === undefined ? NEVER : new Date(timeMs).toISOString();
}
