import {
  type Configuration,
  documentInEffect,
  flagTexts,
  type GivenFlags,
  isFeatureEnabled,
  type LoggingFormat,
} from "../config/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import { listeningProblem } from "./process/mod.ts";
import type { Metrics } from "./metrics.ts";
import { type MetricsServerOptions, startMetricsServer } from "./metrics_server.ts";
import { type ProxyHealth, startHealthzServer } from "./proxy_health.ts";

interface OperatorServersOptions
  extends Required<Pick<MetricsServerOptions, "statusPage" | "limits" | "clock" | "logger" | "signal">> {
  readonly configuration: Configuration;
  readonly health: ProxyHealth;
  readonly metrics: Metrics;
  /** Receives the servers that cannot listen. */
  readonly problems: Pick<ProblemBoard, "report">;
  readonly flags: GivenFlags;
  readonly loggingFormat: LoggingFormat;
  /** The start time of the proxy, in milliseconds since 1970. */
  readonly startedAtMs: number;
}

/** Starts the health and metrics servers. With bindAddressHardFail, rejects if one cannot listen. */
export async function startOperatorServers(options: OperatorServersOptions): Promise<void> {
  const { health, metrics, problems, flags, loggingFormat: format, startedAtMs, statusPage } = options;
  const { limits, clock, logger, signal } = options;
  const configuration = { ...options.configuration, logging: { ...options.configuration.logging, format } };
  const { bindAddressHardFail, featureGates, mode, healthzBindAddress, metricsBindAddress } = configuration;
  const shared = { bindAddressHardFail, limits, clock, logger, signal };
  await Promise.all([
    startHealthzServer({
      ...shared,
      onTry: listeningProblem(problems, "health server", healthzBindAddress),
      bindAddress: healthzBindAddress,
      health,
      onAnswer: (endpoint, code) => metrics.healthAnswered(endpoint, code),
    }),
    startMetricsServer({
      ...shared,
      onTry: listeningProblem(problems, "metrics server", metricsBindAddress),
      bindAddress: metricsBindAddress,
      mode,
      metrics,
      flags: isFeatureEnabled("ComponentFlagz", featureGates) ? flagTexts(flags, configuration) : undefined,
      startedAtMs: isFeatureEnabled("ComponentStatusz", featureGates) ? startedAtMs : undefined,
      configuration: () => documentInEffect(configuration),
      statusPage,
    }),
  ]);
}
