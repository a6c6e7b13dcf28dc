/** Which backend keeps the kernel in which mode: a new one is a folder and a line here. */
import type { ProxyMode } from "../core/model/mod.ts";
import type { Backend, BackendOptions } from "./contract/mod.ts";
import { createIptablesBackend } from "./iptables/mod.ts";
import { IPTABLES_LAYOUTS, NO_LAYOUT, removeIptablesTraces, withMartians } from "./xtables/mod.ts";
import { createIpvsBackend, IPVS_LAYOUT, removeIpvsTraces } from "./ipvs/mod.ts";
import { createNftablesBackend, removeKubeProxyTable, removeNftablesTraces } from "./nftables/mod.ts";
import { type Mode, withTakeover } from "./takeover.ts";

const BACKENDS: Readonly<Record<ProxyMode, Mode>> = {
  iptables: { create: createIptablesBackend, layout: IPTABLES_LAYOUTS.IPv4, removeTraces: removeIptablesTraces },
  nftables: {
    create: createNftablesBackend,
    layout: withMartians(NO_LAYOUT),
    removeTraces: removeNftablesTraces,
    removeLeftovers: removeKubeProxyTable,
  },
  ipvs: { create: createIpvsBackend, layout: withMartians(IPVS_LAYOUT), removeTraces: removeIpvsTraces },
};

/** The modes that there is a backend for. */
export const MODES: readonly ProxyMode[] = Object.keys(BACKENDS) as ProxyMode[];

/** The backend of a mode by itself, which leaves alone what other modes have left behind. */
export function createBackendAlone(mode: ProxyMode, options: BackendOptions): Backend {
  return BACKENDS[mode].create(options);
}

/** The backend of a mode, which takes over from the other modes. */
export function createBackend(mode: ProxyMode, options: BackendOptions): Backend {
  const others = MODES.filter((other) => other !== mode).map((other) => BACKENDS[other]);
  return withTakeover(BACKENDS[mode], others, options);
}
