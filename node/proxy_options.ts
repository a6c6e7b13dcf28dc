import type { ControlAnswers } from "../answers/control/mod.ts";
import { type Configuration, type GivenFlags, ipvsSettings, type LoggingFormat, relaySettings } from "../config/mod.ts";
import type { FamilyOptions, RestDelays, StartFamily } from "../core/channel/mod.ts";
import type { Family, KernelSetting } from "../core/model/mod.ts";
import type { ProcessProblems } from "../core/problems/mod.ts";
import type { RunningProcessFeature } from "../features/mod.ts";
import type { ProcessRecord } from "../observe/mod.ts";
import type { ClockAndLogger, Level, RunProgram } from "../platform/mod.ts";
import type { KeptState } from "../sources/mod.ts";

/** Options of one run of the proxy. */
export interface ProxyOptions extends ClockAndLogger {
  readonly configuration: Configuration;
  /** Flags from the command line, for /flagz; none by default. */
  readonly flags?: GivenFlags;
  readonly logging: { readonly level: Level; readonly format: LoggingFormat };
  readonly startFamily: StartFamily;
  readonly runProgram?: RunProgram;
  /** Reads the variables that a run keeps; by default, those of this process for the in-cluster address, and no others. */
  readonly env?: (name: string) => string | undefined;
  /** The delays after which the worker of a family without service ports is stopped; `REST_DELAYS` by default. */
  readonly restDelays?: RestDelays;
  /** The CPU time of this process in milliseconds, by which changes are paced; read from the runtime by default. */
  readonly cpuMs?: () => number;
  readonly cores: number;
  /** Limit of open files; undefined if unknown. */
  readonly fileLimit?: number;
  /** The file with the cached state, and the other inputs for serving it; undefined if no state is cached. */
  readonly kept?: KeptState;
  /** The record of the process, which lasts from run to run; by default, the process has this run only. */
  readonly process?: ProcessRecord;
  /** Problems of the process, which last from run to run. */
  readonly processProblems?: Pick<ProcessProblems, "attach">;
  readonly processFeatures?: ReadonlyMap<string, RunningProcessFeature>;
  /** Called once the proxy can answer queries; the answers are loaded with the first one. */
  readonly onAnswers?: (answers: () => Promise<ControlAnswers>) => void;
  readonly signal: AbortSignal;
  /** Ends the run in favor of one with a new configuration, which reuses the families' workers. */
  readonly replaced?: AbortSignal;
  /** Ends the run with status 1: a worker that it needs is lost and cannot be restarted. */
  readonly lost?: AbortSignal;
}

/** Returns the options of a family's worker. */
export function familyOptions(
  family: Family,
  kernel: readonly KernelSetting[],
  { configuration, logging, logger, clock, fileLimit }: ProxyOptions,
): FamilyOptions {
  const { mode } = configuration;
  const ipvs = ipvsSettings(family, configuration);
  const relay = relaySettings(family, configuration, fileLimit);
  return { family, mode, ipvs, relay, logLevel: logging.level, logFormat: logging.format, kernel, clock, logger };
}

/**
 * Shares of the file descriptors of this process. backends/host/process_limits.ts reads and raises the limit;
 * platform/http/connection_limits.ts enforces the share of connections.
 */
interface FileShares {
  /** Inbound connections over all listeners. */
  readonly connections: number;
  /** Listeners of health check node ports. */
  readonly listeners: number;
}

/** Descriptors reserved for the runtime (some 60 when idle), the API server's connections, and tools (up to 8 while starting). */
const RESERVE = 256;
const MAX_CONNECTIONS = 256;
/** Linux's default limit. */
const DEFAULT_LIMIT = 1024;

/** Divides `limit` descriptors, Linux's default if unknown. The rest is for the tools, the API server and the runtime. */
export function shareFiles(limit = DEFAULT_LIMIT): FileShares {
  const shared = limit - Math.min(RESERVE, Math.floor(limit / 2));
  const connections = Math.min(MAX_CONNECTIONS, Math.floor(shared / 4));
  return { connections, listeners: shared - connections };
}
