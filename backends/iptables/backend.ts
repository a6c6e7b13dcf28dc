import { type Family, servicePortKey, type SyncFigures } from "../../core/model/mod.ts";
import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  type SyncResult,
} from "../contract/mod.ts";
import { cleanAfterSync, createConntrackCleaner, writeSysctls } from "../host/mod.ts";
import { repeatingRunner } from "../tools/mod.ts";
import {
  type AroundRestore,
  BASE,
  createIptablesTools,
  createReconciler,
  examineHost,
  type Flavour,
  IPTABLES_LAYOUTS,
  type Layout,
  type Reconciler,
  removeIptablesTraces,
  ROUTE_LOOPBACK,
  type Table,
  TABLES,
} from "../xtables/mod.ts";
import { describeServicePort } from "./describe.ts";
import type { IptablesFigure } from "./mode.ts";
import { readPacketCounts } from "./packet_counts.ts";
import { createRuleset, type Ruleset } from "./ruleset.ts";
import { createTcpLiberal } from "./tcp_liberal.ts";

/** The delay of the next sync while a sysctl that the rules depend on is still unknown. */
const WHILE_SETTING_IS_READ_MS = 1_000;

/** What distinguishes the modes that share these rules. */
export interface RulesVariant {
  readonly layouts: Readonly<Record<Family, Layout>>;
  /** Whether node ports on loopback addresses need a kernel that routes these. */
  readonly routesLoopback: boolean;
  /** The tables whose counters are those of traffic. */
  readonly countingTables: readonly Table[];
}

const IPTABLES_VARIANT: RulesVariant = {
  layouts: IPTABLES_LAYOUTS,
  routesLoopback: true,
  countingTables: TABLES,
};

/** The iptables backend of one family. */
export function createIptablesBackend(
  options: BackendOptions,
  variant: RulesVariant = IPTABLES_VARIANT,
): Backend<IptablesFigure> {
  const { family, runner, clock, logger } = options;
  const tools = createIptablesTools(family, runner);
  const conntrack = createConntrackCleaner(family, runner);
  const tcpLiberal = createTcpLiberal(options);
  // Whether to route loopback addresses once the rules, which drop martians, are in effect.
  let routesLoopback = false;
  let parts: { readonly ruleset: Ruleset; readonly reconciler: Reconciler; readonly flavour: Flavour } | undefined;
  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    const { ruleset, flavour } = ready();
    return createTrafficReader({ ruleset, tools, clock, tables: variant.countingTables, flavour });
  }, logger);

  function ready() {
    if (!parts) throw new Error("cannot sync iptables rules before the setup has succeeded");
    return parts;
  }

  /** The steps after the rules are written. Their failures do not fail the sync. */
  async function finish({ reconciler, ruleset }: ReturnType<typeof ready>): Promise<SyncResult<IptablesFigure>> {
    if (routesLoopback) {
      routesLoopback = false;
      // Not awaited: a hanging sysctl must not delay a sync.
      writeSysctls(options, [ROUTE_LOOPBACK]);
    }
    const { problems, figures } = await cleanAfterSync(conntrack, reconciler, ruleset, options);
    return {
      problems,
      againAfterMs: tcpLiberal.isPending() ? WHILE_SETTING_IS_READ_MS : undefined,
      figures: { ...takeSyncFigures(reconciler), ...figures },
    };
  }

  return {
    async setup() {
      const [host] = await Promise.all([
        examineHost(family, createIptablesTools(family, repeatingRunner(runner))),
        tcpLiberal.read(),
      ]);
      logger.info("iptables is ready", { flavour: host.flavour, hairpin: host.hairpin });
      const layout = variant.layouts[family];
      const ruleset = createRuleset({ ...host, tcpLiberal: tcpLiberal.value, layout });
      const { flavour } = host;
      const aroundRestore: AroundRestore = (chains, restore) =>
        traffic.current()?.aroundRestore(chains, restore) ?? restore();
      const reconciler = createReconciler({ layout, ruleset, tools, flavour, logger, aroundRestore });
      parts = { ruleset, reconciler, flavour };
    },
    async sync(delta) {
      const { ruleset, reconciler } = ready();
      conntrack.noteDelta(ruleset, delta);
      reconciler.forgetRefused([
        ...delta.deleted,
        ...delta.set.map((port) => servicePortKey(port.name, port.protocol)),
      ]);
      reconciler.touch(ruleset.apply(delta));
      if (tcpLiberal.takeLateChange()) reconciler.touch({ filter: new Set([BASE.forward]), nat: new Set() });
      await traffic.follow(ruleset.settings());
      if (delta.settings) routesLoopback = variant.routesLoopback && delta.settings.localhostNodePorts;
      if (delta.part === "head") {
        if (await reconciler.isBlank()) await reconciler.run();
        return NOTHING_DONE;
      }
      await reconciler.run();
      return await finish(ready());
    },
    async resync(cause) {
      const { reconciler } = ready();
      await reconciler.compareAndRun(cause);
      return await finish(ready());
    },
    async cleanup() {
      await removeIptablesTraces(options);
    },
    readTraffic: async () => await traffic.current()?.read(),
    packetCounts: () => readPacketCounts(family, tools),
    describe(key) {
      const described = parts && describeServicePort(parts.ruleset, key);
      return described && { parts: described, problem: parts?.reconciler.problemOf(key)?.message };
    },
  };
}

function takeSyncFigures(reconciler: Reconciler): SyncFigures<IptablesFigure> {
  const figures = reconciler.takeFigures(), rules = reconciler.rules();
  return {
    iptables_rules_nat: rules.nat,
    iptables_rules_filter: rules.filter,
    iptables_rules_last_nat: figures.rulesLast.nat,
    iptables_rules_last_filter: figures.rulesLast.filter,
    chains_written: figures.chainsWritten,
    chains_deleted: figures.chainsDeleted,
    restores: figures.restores,
    restore_failures: figures.restoreFailures,
    drift_repaired: figures.drifted,
  };
}

/** The code of iptables mode, as the registry loads it. */
export const IPTABLES_CODE = {
  create: createIptablesBackend,
  async examine({ family, runner }: HostQuestion): Promise<void> {
    await examineHost(family, createIptablesTools(family, runner));
  },
  layout: IPTABLES_LAYOUTS.IPv4,
  removeTraces: removeIptablesTraces,
};
