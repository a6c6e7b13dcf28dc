import type { Clock, Level, Logger, RunProgram } from "../platform/mod.ts";
import { type Configuration, type GivenFlags, ipvsSettings, type LoggingFormat } from "../config/mod.ts";
import type { ControlAnswers } from "../answers/control/mod.ts";
import type { FamilyOptions, KernelSetting, RestDelays, StartFamily } from "../core/channel/mod.ts";
import type { Family } from "../core/model/mod.ts";

/** What a run of the proxy works with. */
export interface ProxyOptions {
  readonly configuration: Configuration;
  /** The flags that were given, to show them; none by default. */
  readonly flags?: GivenFlags;
  readonly logger: Logger;
  /** How the logger writes, so that the workers write alike. */
  readonly logging: { readonly level: Level; readonly format: LoggingFormat };
  readonly clock: Clock;
  readonly startFamily: StartFamily;
  /** Runs the credential plugin that a kubeconfig names. */
  readonly runProgram?: RunProgram;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
  /** When a family without service ports does without its worker; `REST_DELAYS` by default. */
  readonly restDelays?: RestDelays;
  /** How many files this process may open; undefined where that is not known. */
  readonly fileLimit?: number;
  /** Called once the proxy can be asked about what it does; the answers are loaded with the first question. */
  readonly onAnswers?: (answers: () => Promise<ControlAnswers>) => void;
  /** Ends the run. */
  readonly signal: AbortSignal;
  /** Ends the run in favor of another one with a new configuration, which finds the families' workers waiting. */
  readonly replaced?: AbortSignal;
  /** Ends it with status 1: something is gone that it cannot do without, nor start anew. */
  readonly lost?: AbortSignal;
}

/** What a family's worker is started with. */
export function familyOptions(
  family: Family,
  kernel: readonly KernelSetting[],
  { configuration, logging, logger, clock }: ProxyOptions,
): FamilyOptions {
  const { mode } = configuration;
  const ipvs = ipvsSettings(family, configuration);
  return { family, mode, ipvs, logLevel: logging.level, logFormat: logging.format, kernel, clock, logger };
}
