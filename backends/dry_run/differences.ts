import type { Differences } from "./difference.ts";
import { createIptablesDifferences } from "./iptables_difference.ts";
import { createOperationDifferences } from "./ipvs_difference.ts";
import { createNftDifferences } from "./nft_difference.ts";

/** Nothing read and nothing to change so far. */
export function createDifferences(): Differences {
  const iptables = createIptablesDifferences(), nft = createNftDifferences(), others = createOperationDifferences();
  const speaker = (tool: string) => /^ip6?tables-/.test(tool) ? iptables : tool === "nft" ? nft : others;
  return {
    onRead: (call, line) => speaker(call.tool).onRead(call, line),
    onChange(call) {
      // Connections are cleaned up after a change of rules, and are no part of them.
      if (call.tool !== "conntrack") speaker(call.tool).onChange(call);
    },
    found: () => [...iptables.found(), ...nft.found(), ...others.found()],
  };
}
