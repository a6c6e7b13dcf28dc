import {
  createConnectionLimits,
  type HttpAnswer,
  route,
  type RunningServer,
  startServer,
  textAnswer,
} from "../../platform/http/mod.ts";
import type { CurrentProblem, ProblemBoard } from "../../core/problems/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import { CONTENT_TYPE, listeningProblem } from "../mod.ts";
import type { ServingMetrics, SourceFigures } from "./serving_metrics.ts";

/** Options of `startServingServers`. */
export interface ServingServersOptions {
  /** `address:port`; undefined for none. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port`; undefined for none. */
  readonly metricsBindAddress: string | undefined;
  readonly source: () => SourceFigures;
  readonly metrics: Pick<ServingMetrics, "expose">;
  /** Has the current problems, and receives the servers that cannot listen. */
  readonly problems: Pick<ProblemBoard, "report" | "current">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops both servers. */
  readonly signal: AbortSignal;
}

/** The servers for the operator of `sluice serve`. */
export interface ServingServers {
  readonly health: RunningServer;
  readonly metrics: RunningServer;
}

/**
 * Starts the health server and the metrics server. `/healthz` and `/readyz` are 503 until the whole state was read from the
 * source, and stay 200 when the source fails later, since the last state is still served; `/livez` is 200 while the process
 * runs.
 */
export async function startServingServers(options: ServingServersOptions): Promise<ServingServers> {
  const { healthzBindAddress, metricsBindAddress, metrics, problems, clock, logger, signal } = options;
  const limits = createConnectionLimits({ clock });
  const shared = { bindAddressHardFail: false, limits, clock, logger, signal };
  const ready = () => readiness(options);
  const alive = () => textAnswer(200, "ok");
  const [healthServer, metricsServer] = await Promise.all([
    startServer("health", route({ "/healthz": ready, "/readyz": ready, "/livez": alive }, "404 page not found\n"), {
      ...shared,
      bindAddress: healthzBindAddress,
      onTry: listeningProblem(problems, "health server", healthzBindAddress),
    }),
    startServer(
      "metrics",
      route({
        "/metrics": async () => ({ status: 200, contentType: CONTENT_TYPE, body: await metrics.expose() }),
        "/healthz": alive,
      }, "not found; known paths:\n  /healthz\n  /metrics\n"),
      {
        ...shared,
        bindAddress: metricsBindAddress,
        onTry: listeningProblem(problems, "metrics server", metricsBindAddress),
      },
    ),
  ]);
  return { health: healthServer, metrics: metricsServer };
}

/** Answers with the state of the source and the problems that last. */
function readiness({ source, problems, clock }: ServingServersOptions): HttpAnswer {
  const { isReady, lastEventMs } = source();
  return {
    status: isReady ? 200 : 503,
    contentType: "application/json",
    body: JSON.stringify({
      currentTime: timeText(clock.now()),
      ready: isReady,
      lastEvent: lastEventMs === undefined ? undefined : timeText(lastEventMs),
      problems: problems.current().filter(isOfServer).map(({ code, subject, sinceMs }) => (
        { code, subject, since: timeText(sinceMs) }
      )),
    }),
  };
}

/** Whether a problem is one of the server and its source, not of an object that it passes on. */
function isOfServer({ code }: CurrentProblem): boolean {
  return code === "source-unreachable" || code === "server-not-listening";
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
