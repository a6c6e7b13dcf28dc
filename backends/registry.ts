/** Which backend keeps the kernel in which mode: a new one is a folder and a line here. */
import type { Family, ProxyMode } from "../core/model.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/log.ts";
import type { Backend } from "./backend.ts";
import { createIptablesBackend } from "./iptables/backend.ts";
import type { Runner } from "./runner.ts";

/** What every backend is made with. */
export interface BackendOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly logger: Logger;
}

const BACKENDS: Readonly<Partial<Record<ProxyMode, (options: BackendOptions) => Backend>>> = {
  iptables: createIptablesBackend,
};

/** The modes that there is a backend for. */
export const MODES: readonly ProxyMode[] = Object.keys(BACKENDS) as ProxyMode[];

/** The backend of a mode. Throws where there is none. */
export function createBackend(mode: ProxyMode, options: BackendOptions): Backend {
  const create = BACKENDS[mode];
  if (create === undefined) throw new Error(`there is no backend for mode ${mode}, only for ${MODES.join(", ")}`);
  return create(options);
}
