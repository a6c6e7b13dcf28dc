import { errorText } from "../../platform/mod.ts";
import type { Process, ProcessFeature } from "../contract.ts";
import { telemetryChoice } from "./choice.ts";

/** Sends metrics, and a trace of each sync, to the OpenTelemetry collector that the environment names (docs/operate.md). */
export const telemetry = {
  name: "telemetry",
  problems: {
    "telemetry-not-exported": {
      severity: "warning",
      about: "server",
      title: "metrics or traces do not reach the OpenTelemetry collector",
      fix: "check OTEL_EXPORTER_OTLP_ENDPOINT, the collector and the network to it; Sluice keeps trying",
    },
  },
  environment: {
    OTEL_EXPORTER_OTLP_ENDPOINT: "run and serve send metrics, and run a trace of each sync, to this OpenTelemetry " +
      "collector; the other variables of OpenTelemetry's exporters apply (docs/operate.md)",
    OTEL_SDK_DISABLED: "true: nothing is sent",
  },
  async start(process: Process) {
    const { environment, nodeName, logger } = process;
    // Only a node syncs.
    const choice = telemetryChoice(environment, nodeName === undefined ? ["metrics"] : ["metrics", "traces"]);
    for (const warning of choice.warnings) logger.warn(warning);
    if (choice.endpoints.size === 0) return undefined;
    try {
      const { start } = await import("./start.ts");
      return start(process, choice);
    } catch (error) {
      logger.warn("metrics and traces are not exported", { error: errorText(error) });
      return undefined;
    }
  },
} satisfies ProcessFeature;
