import type { Kind, LabelKeys } from "../core/objects/mod.ts";
import type { BalanceOptions } from "../core/planning/mod.ts";
import { BALANCE_HASHES, IPVS_SCHEDULERS } from "../core/model/mod.ts";
import type { Configuration } from "./configuration.ts";

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
