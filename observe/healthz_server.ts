import type { Clock } from "../platform/mod.ts";
import { type HttpAnswer, route, type RunningServer, type ServerOptions, startServer } from "../platform/http/mod.ts";
import type { ProxyHealth } from "./proxy_health.ts";

/** An endpoint of the health server. */
export type HealthEndpoint = "healthz" | "livez";

/** Options of `startHealthzServer`. */
export interface HealthzServerOptions extends ServerOptions {
  readonly health: ProxyHealth;
  /** Called with every response, for metrics. */
  readonly onAnswer: (endpoint: HealthEndpoint, code: number) => void;
}

/** Go's zero time, which kube-proxy reports for a time that is not set. */
const NEVER = "0001-01-01T00:00:00Z";

/**
 * Starts the server that load balancers and the kubelet probe. `/healthz` is 503 until the first rules are in effect,
 * while the proxy is behind, while the node is leaving, and while a canary does not answer; `/livez` only while the proxy is
 * behind (KEP-3836): a restart of the proxy changes nothing about a node or its packets. With `bindAddressHardFail`, rejects if it cannot listen.
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
 * Returns the fields of kube-proxy's health response, in its order. `healthy` describes the proxy without its node;
 * `lastUpdated` is the current time if the status is 200. A family whose worker is down also has a `reason`. With a canary,
 * `packetsFlow` follows, and the `reason` if they do not.
 */
function healthAnswer(health: ProxyHealth, clock: Clock, isForTraffic: boolean): HttpAnswer {
  const status = health.status();
  const nodeEligible = health.nodeEligible();
  const healthy = status.healthy && (status.inEffect || !isForTraffic);
  const packets = isForTraffic ? status.packets : undefined;
  const ok = healthy && packets?.flow !== false && (nodeEligible || !isForTraffic);
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
      packetsFlow: packets?.flow,
      reason: packets?.reason,
      status: families.length === 0 ? undefined : Object.fromEntries(families),
    }),
  };
}

function timeText(timeMs: number | undefined): string {
  return timeMs === undefined ? NEVER : new Date(timeMs).toISOString();
}
