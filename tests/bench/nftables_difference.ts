import { createNftSession } from "../../backends/tools/mod.ts";
import { createDesired, type Desired } from "../../backends/nftables/desired.ts";
import { createTableReconciler, type TableReconciler } from "../../backends/nftables/reconcile.ts";
import { DIALECTS } from "../../backends/nftables/table.ts";
import { createNftTools } from "../../backends/nftables/tools.ts";
import { systemClock } from "../../platform/clock.ts";
import { fakeSettings } from "../fakes/service_port.ts";
import { clusterServicePort, forEachService } from "./cluster.ts";
import { createCountingRunner } from "./counting_runner.ts";
import { throwingLogger } from "./throwing_logger.ts";
import type { Stage } from "./stage.ts";

/** The desired table and its reconciler. */
interface Synced {
  readonly desired: Desired;
  readonly reconciler: TableReconciler;
}

/**
 * Renders service ports and writes the difference from the (initially empty) kernel for nft. A change is one service port.
 */
export const nftablesDifferenceStage: Stage<Synced> = {
  name: "nftables: difference",
  prepare(size) {
    const ports = forEachService(size, (i) => clusterServicePort(i));
    const settings = fakeSettings({ mode: "nftables" });
    const runner = createCountingRunner(), tools = createNftTools("IPv4", runner);
    return {
      async fill() {
        const desired = createDesired();
        const reconciler = createTableReconciler({
          desired,
          tools,
          dialect: DIALECTS.IPv4,
          looks: createNftSession({ runner, clock: systemClock }),
          clock: systemClock,
          logger: throwingLogger,
        });
        reconciler.touch(desired.apply({ revision: 1, base: undefined, settings, set: ports, deleted: [] }));
        await reconciler.run();
        return { desired, reconciler };
      },
      change({ desired, reconciler }, index, round) {
        const port = clusterServicePort(index, round);
        return async () => {
          reconciler.touch(desired.apply({ revision: 2, base: 1, settings: undefined, set: [port], deleted: [] }));
          await reconciler.run();
        };
      },
    };
  },
};
