import { IPTABLES_LAYOUTS } from "../../backends/xtables/base_chains.ts";
import { type ChainReconciler, createChainReconciler } from "../../backends/xtables/reconcile.ts";
import { createIptablesTools } from "../../backends/xtables/tools.ts";
import { clusterServicePort, forEachService } from "./cluster.ts";
import { createCountingRunner } from "./counting_runner.ts";
import { emptyRuleset, setAll, setOne } from "./iptables_render.ts";
import { throwingLogger } from "./throwing_logger.ts";
import type { Stage } from "./stage.ts";

/**
 * Renders touched chains and writes the difference from the (initially empty) kernel for iptables-restore. A change is the
 * chains that one service port touches.
 */
export const iptablesDifferenceStage: Stage<ChainReconciler> = {
  name: "iptables: difference",
  prepare(size) {
    const ruleset = emptyRuleset();
    const chains = setAll(ruleset, forEachService(size, (i) => clusterServicePort(i)));
    const tools = createIptablesTools("IPv4", createCountingRunner());
    return {
      async fill() {
        const reconciler = createChainReconciler({
          layout: IPTABLES_LAYOUTS.IPv4,
          ruleset,
          tools,
          flavour: "nf_tables",
          logger: throwingLogger,
        });
        reconciler.touch(chains);
        await reconciler.run();
        return reconciler;
      },
      change(reconciler, index, round) {
        const touched = setOne(ruleset, clusterServicePort(index, round));
        return async () => {
          reconciler.touch(touched);
          await reconciler.run();
        };
      },
    };
  },
};
