import type { Configuration } from "./configuration.ts";
import { BALANCE_HASHES, IPVS_SCHEDULERS, type KernelSetting } from "../core/model/mod.ts";
import { featuresOn, type Permission } from "../features/mod.ts";
import { mayServeLocalhost } from "./family_settings.ts";
import type { Kind, LabelKeys } from "../core/objects/mod.ts";
import type { BalanceOptions } from "../core/planning/mod.ts";

/** kube-proxy's upper limit for a computed `nf_conntrack_max`. */
const CONNTRACK_MAX_CAP = 1_048_576;

/** The maximum value that the kernel accepts. */
const INT_MAX = 2 ** 31 - 1;

/**
 * The conntrack sysctls for the configuration on a machine with `cores` cores; sysctls to leave unchanged are not included. As
 * in kube-proxy, `min` applies only if `maxPerCore` is set, and the hash table has at least one bucket for four connections;
 * a greater table is kept, as kube-proxy does since 1.37.
 */
export function conntrackSettings(conntrack: Configuration["conntrack"], cores: number): readonly KernelSetting[] {
  const settings: KernelSetting[] = [];
  const set = (name: string, value: number, more: Pick<KernelSetting, "atLeast" | "mayFail"> = {}) =>
    settings.push({ name: `net.netfilter.nf_conntrack_${name}`, value, ...more });
  const setSeconds = (name: string, milliseconds: number) => {
    if (milliseconds > 0) set(name, Math.min(Math.ceil(milliseconds / 1000), INT_MAX));
  };
  if (conntrack.maxPerCore > 0) {
    const scaled = conntrack.maxPerCore * cores;
    const max = scaled > CONNTRACK_MAX_CAP ? CONNTRACK_MAX_CAP : Math.max(scaled, conntrack.min);
    set("max", max, { atLeast: true });
    if (max >= 4) set("buckets", Math.floor(max / 4), { atLeast: true, mayFail: true });
  }
  setSeconds("tcp_timeout_established", conntrack.tcpEstablishedTimeoutMs);
  setSeconds("tcp_timeout_close_wait", conntrack.tcpCloseWaitTimeoutMs);
  setSeconds("udp_timeout", conntrack.udpTimeoutMs);
  setSeconds("udp_timeout_stream", conntrack.udpStreamTimeoutMs);
  if (conntrack.tcpBeLiberal) set("tcp_be_liberal", 1);
  return settings;
}

/**
 * The sysctls that serving needs and that `--init-only` sets, because the proxy started later may lack the privilege (as in
 * kube-proxy's init container): in iptables mode, routing of loopback addresses if they serve node ports.
 */
export function initSettings(configuration: Configuration): readonly KernelSetting[] {
  return configuration.modeDescription.relay === "none" && mayServeLocalhost("IPv4", configuration)
    ? [{ name: "net.ipv4.conf.all.route_localnet", value: 1 }]
    : [];
}

/** The permissions at the API server that the features need which are on. */
export function featurePermissions(configuration: Configuration): readonly Permission[] {
  return featuresOn(configuration, configuration.modeDescription)
    .flatMap((feature) => feature.permissions?.(configuration) ?? []);
}

/** The sysctls that the features need which are on. */
export function featureSettings(configuration: Configuration): readonly KernelSetting[] {
  return featuresOn(configuration, configuration.modeDescription).flatMap(({ kernelSettings = [] }) => kernelSettings);
}

/** How services can be balanced on a node with this configuration. */
export function balanceOptions(configuration: Configuration): BalanceOptions {
  const {
    mode,
    modeDescription: {
      balance: { algorithms, byDefault, tablesAreInKernel, countsConnections },
      settings: { section },
    },
    balance,
  } = configuration;
  // A scheduler that only this kernel has cannot be combined with weights.
  const scheduler = section === "ipvs"
    ? IPVS_SCHEDULERS.find((one) => one === configuration.ipvs.scheduler)
    : undefined;
  const modeDefault = scheduler ?? byDefault;
  const algorithm = algorithms.find((one) => one === balance.algorithm);
  const hash = BALANCE_HASHES.find((one) => one === balance.affinityHash) ?? BALANCE_HASHES[0];
  return {
    mode,
    algorithms,
    modeDefault,
    tablesAreInKernel,
    countsConnections,
    labelKeys: labelKeys(configuration),
    byDefault: { algorithm: algorithm === modeDefault ? undefined : algorithm, hash },
  };
}

/** The labels that weights may refer to. Only the API server has them, and a site does not pass them on. */
export function labelKeys({ source, site, balance }: Configuration): LabelKeys {
  return source.kind === "kube" && site.name === ""
    ? { nodes: balance.nodeLabels, pods: balance.podLabels }
    : { nodes: [], pods: [], areUnavailable: true };
}

/** The kinds of objects that a proxy with this configuration watches. */
export function watchedKinds(configuration: Configuration): readonly Kind[] {
  const { nodes, pods } = labelKeys(configuration), { kinds } = configuration.modeDescription;
  if (nodes.length + pods.length === 0) return kinds;
  return [
    ...kinds,
    ...(nodes.length > 0 ? ["NodeLabels"] as const : []),
    ...(pods.length > 0 ? ["PodLabels"] as const : []),
  ];
}
