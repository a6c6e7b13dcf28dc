import type { ToolCall } from "../runner.ts";
import { createIptablesDifferences } from "./iptables_difference.ts";
import { createOperationDifferences } from "./ipvs_difference.ts";
import type { DifferentLine } from "./line_difference.ts";
import { createNftDifferences } from "./nft_difference.ts";
import type { RehearsedCall } from "./runner.ts";

/** One place in the kernel that is not as it should be. */
export interface Difference {
  /** `nat KUBE-SERVICES`, `map services`; the tool where there is nothing to compare by. */
  readonly place: string;
  /** What is wrong with it as a whole, where it is more than its lines. */
  readonly what: "differs" | "missing" | "unwanted";
  readonly lines: readonly DifferentLine[];
}

/** Gathers what a rehearsal reads and would change, as differences. */
export interface Differences {
  readonly onRead: (call: ToolCall, line: string) => void;
  readonly onChange: (call: RehearsedCall) => void;
  found(): readonly Difference[];
}

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
