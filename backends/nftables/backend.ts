import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  type SyncResult,
} from "../contract/mod.ts";
import { cleanAfterSync, createConntrackCleaner, createUnansweredCleaner } from "../host/mod.ts";
import { removeKubeProxyTable, removeNftablesTraces } from "./cleanup.ts";
import { describeServicePort } from "./describe.ts";
import { createDesired } from "./desired.ts";
import { examineHost } from "./host.ts";
import { createGoneEndpoints } from "./gone.ts";
import type { NftablesFigure } from "./mode.ts";
import { createReconciler } from "./reconcile.ts";
import { createNftSession } from "./session.ts";
import { DIALECTS } from "./table.ts";
import type { FamilySettings } from "../../core/model/mod.ts";
import { createNftTools } from "./tools.ts";

/** The nftables backend of one family. */
export function createNftablesBackend(options: BackendOptions): Backend<NftablesFigure> {
  const { family, runner, clock, logger } = options;
  const tools = createNftTools(family, runner, createNftSession({ runner, clock }));
  const conntrack = createConntrackCleaner(family, runner);
  const unanswered = createUnansweredCleaner(options);
  const desired = createDesired();
  const reconciler = createReconciler({ desired, tools, dialect: DIALECTS[family], clock, logger });

  const gone = createGoneEndpoints(tools, desired, DIALECTS[family]);

  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    return createTrafficReader({ desired, dialect: DIALECTS[family], runner, clock });
  }, logger);

  /** Removes stale flows and gathers the result of a sync. */
  async function finish(): Promise<SyncResult<NftablesFigure>> {
    await unanswered.clean();
    const cleaned = await cleanAfterSync(conntrack, reconciler, desired, options);
    const figures = reconciler.takeFigures();
    return {
      problems: cleaned.problems,
      figures: {
        elements_written: figures.elementsWritten,
        elements_deleted: figures.elementsDeleted,
        chains_written: figures.chainsWritten,
        nftables_transactions: figures.transactions,
        nftables_sync_failures: figures.transactionFailures,
        drift_repaired: figures.drifted,
        ...(desired.settings()?.resetsGone ? { connections_reset: gone.takeResets() } : {}),
        ...cleaned.figures,
      },
    };
  }

  return {
    async setup() {
      logger.info("nftables is ready", { version: await examineHost(family, runner) });
    },
    async sync(delta) {
      conntrack.noteDelta(desired, delta);
      unanswered.noteDelta(desired, delta);
      const counted = countersOf(desired.settings());
      reconciler.touch(desired.apply(delta));
      // The sets differ, which only a listing finds.
      if (countersOf(desired.settings()) !== counted) reconciler.invalidate();
      await traffic.follow(desired.settings());
      await gone.before(delta);
      if (delta.part === "head") {
        if (await reconciler.isBlank()) await reconciler.run();
        return NOTHING_DONE;
      }
      await reconciler.run();
      await gone.after();
      return await finish();
    },
    async resync(cause) {
      await reconciler.compareAndRun(cause);
      await gone.compare();
      return await finish();
    },
    async cleanup() {
      await removeNftablesTraces(options);
      reconciler.invalidate();
      gone.invalidate();
    },
    readTraffic: async () => await traffic.current()?.read(),
    attemptCounts: () => tools.readAttempts(),
    describe(key) {
      const parts = describeServicePort(desired, DIALECTS[family], key);
      return parts && { parts, problem: reconciler.problemOf(key)?.message };
    },
  };
}

/** The sets that rules fill, as far as the settings decide about them, as text for comparisons. */
function countersOf(settings: FamilySettings | undefined): string {
  const { countTraffic = false, countsAttempts = false, resetsGone = false, goneTimeoutMs } = settings ?? {};
  return [countTraffic, countsAttempts, resetsGone, goneTimeoutMs].join(" ");
}

/** The code of nftables mode, as the registry loads it. */
export const NFTABLES_CODE = {
  create: createNftablesBackend,
  async examine({ family, runner }: HostQuestion): Promise<void> {
    await examineHost(family, runner);
  },
  removeTraces: removeNftablesTraces,
  removeLeftovers: removeKubeProxyTable,
};
