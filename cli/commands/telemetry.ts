import type { ReportProblems } from "../../core/problems/mod.ts";
import type { Signal } from "../../observe/mod.ts";
import type { Telemetry } from "../../observe/telemetry/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";

/**
 * Starts the export of metrics and traces that the environment asks for; call it before the permission to read the
 * environment is dropped. Undefined if it names no collector. A failure is only logged.
 * @param signals those that the command has
 * @param attributes of this process, as OpenTelemetry names them; the environment may override them
 */
export async function openTelemetry(
  signals: readonly Signal[],
  attributes: Readonly<Record<string, string>>,
  { clock, logger }: Pick<Invocation, "clock" | "logger">,
  onProblems: ReportProblems,
): Promise<Telemetry | undefined> {
  const { telemetryChoice } = await import("../../observe/mod.ts");
  const env = (name: string) => Deno.env.get(name);
  const choice = telemetryChoice(env, signals);
  for (const warning of choice.warnings) logger.warn(warning);
  if (choice.endpoints.size === 0) return undefined;
  try {
    const { startTelemetry } = await import("../../observe/telemetry/mod.ts");
    const ofHost = { ...attributes, "host.name": Deno.hostname() };
    return startTelemetry({ choice, attributes: ofHost, env, clock, logger, onProblems });
  } catch (error) {
    logger.warn("metrics and traces are not exported", { error: errorText(error) });
    return undefined;
  }
}
