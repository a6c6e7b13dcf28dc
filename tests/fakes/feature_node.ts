import { MODE_DESCRIPTIONS } from "../../backends/mod.ts";
import { createLedgers } from "../../core/channel/mod.ts";
import type { Node } from "../../features/contract.ts";
import { silentLogger } from "../../platform/log.ts";
import { createFakeClock } from "./clock.ts";

/** The node `here` as a feature sees it, in the first mode, without families or an API server. */
export function featureNode(parts: Partial<Node> & Pick<Node, "tracking">): Node {
  const { clock = createFakeClock() } = parts;
  return {
    ...{ name: "here", mode: MODE_DESCRIPTIONS[0]!, families: [], ledgers: createLedgers(clock), api: undefined },
    health: { setPackets() {}, status: () => ({ healthy: true, inEffect: true }) },
    ownAddresses: () => ["192.0.2.10", "2001:db8::1"],
    reportProblems() {},
    recordServiceProblem() {},
    recordEvent() {},
    headline: () => Promise.resolve("all in sync"),
    environment: () => undefined,
    ...{ clock, logger: silentLogger, signal: new AbortController().signal },
    ...parts,
  };
}
