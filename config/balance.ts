import type { BalanceOptions } from "../core/planning/mod.ts";
import { BALANCE_HASHES, IPVS_SCHEDULERS } from "../core/model/mod.ts";
import type { Configuration } from "./configuration.ts";

/** How services can be balanced on a node with this configuration. */
export function balanceOptions(configuration: Configuration): BalanceOptions {
  const { mode, modeDescription: { balance: { algorithms, byDefault }, settings: { section } }, balance } =
    configuration;
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
    byDefault: { algorithm: algorithm === modeDefault ? undefined : algorithm, hash },
  };
}
