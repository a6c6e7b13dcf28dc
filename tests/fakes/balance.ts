import type { ModeDescription } from "../../backends/contract/mod.ts";
import type { BalanceOptions } from "../../core/planning/mod.ts";

/** How services can be balanced in a mode; `byDefault` is the configuration's choice for all services. */
export function fakeBalance(
  { name, balance }: Pick<ModeDescription, "name" | "balance">,
  byDefault: Partial<BalanceOptions["byDefault"]> = {},
): BalanceOptions {
  return {
    mode: name,
    algorithms: balance.algorithms,
    modeDefault: balance.byDefault,
    byDefault: { algorithm: undefined, hash: "flow", ...byDefault },
  };
}
