import type { ModeDescription } from "../../backends/contract/mod.ts";
import type { BalanceOptions } from "../../core/planning/mod.ts";

/** How services can be balanced in a mode; `byDefault` is the configuration's choice for all services. */
export function fakeBalance(
  { name, balance }: Pick<ModeDescription, "name" | "balance">,
  byDefault: Partial<BalanceOptions["byDefault"]> = {},
  labelKeys: BalanceOptions["labelKeys"] = { nodes: [], pods: [] },
): BalanceOptions {
  return {
    mode: name,
    algorithms: balance.algorithms,
    modeDefault: balance.byDefault,
    tablesAreInKernel: balance.tablesAreInKernel,
    countsConnections: balance.countsConnections,
    labelKeys,
    byDefault: { algorithm: undefined, hash: "flow", ...byDefault },
  };
}
