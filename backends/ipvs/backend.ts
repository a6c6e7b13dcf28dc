import type { IpvsSettings } from "../../core/model/mod.ts";
import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  type SyncResult,
} from "../contract/mod.ts";
import { cleanAfterSync, createConntrackCleaner } from "../host/mod.ts";
import { repeatingRunner } from "../tools/mod.ts";
import { createIptablesTools, createReconciler as createChainReconciler } from "../xtables/mod.ts";
import { removeIpvsTraces } from "./cleanup.ts";
import { describeContribution } from "./describe.ts";
import { createDesired, type Desired } from "./desired.ts";
import { createDummyInterface } from "./dummy_interface.ts";
import { configureHost, examineHost } from "./host.ts";
import { createSets } from "./ipset.ts";
import { createVirtualServers } from "./ipvsadm.ts";
import type { IpvsFigure } from "./mode.ts";
import { createReconciler, type Reconciler } from "./reconcile.ts";
import { createRules, IPVS_LAYOUT } from "./rules.ts";

/** kube-proxy's defaults. */
const DEFAULTS: IpvsSettings = {
  scheduler: "rr",
  strictARP: false,
  excludePrefixes: [],
  timeoutSeconds: { tcp: 0, tcpFin: 0, udp: 0 },
};

type Chains = ReturnType<typeof createChainReconciler>;

/** The IPVS backend of one family. */
export function createIpvsBackend(options: BackendOptions): Backend<IpvsFigure> {
  const { family, runner, clock, logger, ipvs = DEFAULTS } = options;
  const servers = createVirtualServers(family, runner);
  const sets = createSets(family, runner);
  const dummy = createDummyInterface(family, runner);
  const iptables = createIptablesTools(family, runner);
  const conntrack = createConntrackCleaner(family, runner);
  const desired = createDesired(family, ipvs.scheduler);
  let reconciler: Reconciler | undefined;
  let chains: Chains | undefined;
  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    return createTrafficReader({ desired, servers, clock });
  }, logger);

  function ready(): Reconciler {
    if (!reconciler) throw new Error("the IPVS backend cannot sync before its setup has succeeded");
    return reconciler;
  }

  /** Cleans up connections after a sync; a failure is a problem of the result. */
  async function finish(reconciler: Reconciler): Promise<SyncResult<IpvsFigure>> {
    const { problems, figures } = await cleanAfterSync(conntrack, reconciler, desired, options);
    return {
      problems,
      figures: { ...takeFigures(desired, reconciler, chains!), ...figures },
      againAfterMs: reconciler.againAfterMs(),
    };
  }

  return {
    async setup() {
      const { flavour, randomFully } = await examineHost(family, ipvs, {
        runner,
        servers,
        sets,
        iptables: createIptablesTools(family, repeatingRunner(runner)),
      });
      const rules = createRules({ family, randomFully });
      chains = createChainReconciler({ layout: IPVS_LAYOUT, ruleset: rules, tools: iptables, flavour, logger });
      const { excludePrefixes } = ipvs, kernel = { servers, sets, dummy, rules, chains };
      reconciler = createReconciler({ family, desired, ...kernel, excludePrefixes, clock, logger });
      logger.info("IPVS is ready", { scheduler: ipvs.scheduler, flavour });
    },
    configure: () => configureHost(ipvs, servers, options),
    async sync(delta) {
      const reconciler = ready();
      conntrack.noteDelta(desired, delta);
      desired.apply(delta);
      await traffic.follow(desired.settings());
      if (delta.part === "head") return NOTHING_DONE;
      await reconciler.run();
      return await finish(reconciler);
    },
    async resync(cause) {
      const reconciler = ready();
      await reconciler.compareAndRun(cause);
      return await finish(reconciler);
    },
    async cleanup() {
      await removeIpvsTraces(options);
    },
    readTraffic: async () => await traffic.current()?.read(),
    describe(key) {
      const contribution = desired.contribution(key);
      const name = desired.servicePort(key)?.name;
      const problem = reconciler?.problems().find(({ servicePort }) => servicePort === name)?.message;
      return contribution && { parts: describeContribution(contribution), problem };
    },
  };
}

/** The figures of a sync, without its conntrack cleanup. */
function takeFigures(desired: Desired, reconciler: Reconciler, chains: Chains) {
  const figures = reconciler.takeFigures(), chainFigures = chains.takeFigures(), rules = chains.rules();
  return {
    virtual_servers: desired.servers.size(),
    server_operations: figures.serverOperations,
    set_changes: figures.setChanges,
    iptables_rules_nat: rules.nat,
    iptables_rules_filter: rules.filter,
    iptables_rules_last_nat: chainFigures.rulesLast.nat,
    iptables_rules_last_filter: chainFigures.rulesLast.filter,
    restore_failures: chainFigures.restoreFailures,
    drift_repaired: figures.drifted + chainFigures.drifted,
  };
}

/** The code of IPVS mode, as the registry loads it. */
export const IPVS_CODE = {
  create: createIpvsBackend,
  async examine({ family, runner, ipvs = DEFAULTS }: HostQuestion): Promise<void> {
    const servers = createVirtualServers(family, runner), sets = createSets(family, runner);
    await examineHost(family, ipvs, { runner, servers, sets, iptables: createIptablesTools(family, runner) });
  },
  layout: IPVS_LAYOUT,
  removeTraces: removeIpvsTraces,
};
