/** Which backend keeps the kernel in which mode: a new one is a folder and a line here. */
import type { ProxyMode } from "../core/model.ts";
import type { Backend, BackendOptions } from "./backend.ts";
import { createIptablesBackend } from "./iptables/backend.ts";
import { removeIptablesTraces } from "./iptables/cleanup.ts";
import { createNftablesBackend } from "./nftables/backend.ts";
import { removeKubeProxyTable, removeNftablesTraces } from "./nftables/cleanup.ts";
import { type Mode, withTakeover } from "./takeover.ts";

const BACKENDS: Readonly<Partial<Record<ProxyMode, Mode>>> = {
  iptables: { create: createIptablesBackend, removeTraces: removeIptablesTraces },
  nftables: {
    create: createNftablesBackend,
    removeTraces: removeNftablesTraces,
    removeLeftovers: removeKubeProxyTable,
  },
};

/** The modes that there is a backend for. */
export const MODES: readonly ProxyMode[] = Object.keys(BACKENDS) as ProxyMode[];

function modeOf(mode: ProxyMode): Mode {
  const chosen = BACKENDS[mode];
  if (chosen === undefined) throw new Error(`there is no backend for mode ${mode}, only for ${MODES.join(", ")}`);
  return chosen;
}

/** The backend of a mode by itself, which leaves alone what other modes have left behind. Throws where there is none. */
export function createBackendAlone(mode: ProxyMode, options: BackendOptions): Backend {
  return modeOf(mode).create(options);
}

/** The backend of a mode, which takes over from the other modes. Throws where there is none. */
export function createBackend(mode: ProxyMode, options: BackendOptions): Backend {
  const chosen = modeOf(mode);
  const others = MODES.filter((other) => other !== mode).map((other) => BACKENDS[other]!);
  return withTakeover(chosen, others, options);
}
