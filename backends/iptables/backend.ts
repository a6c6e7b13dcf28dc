import { type FamilySettings, servicePortKey, type SyncProblem } from "../../core/model.ts";
import { prefixContains } from "../../platform/address.ts";
import type { Backend, BackendOptions, SyncResult } from "../backend.ts";
import { createConntrackCleaner } from "../conntrack.ts";
import { repeatingRunner } from "../refusal.ts";
import { writeSysctls } from "../sysctl.ts";
import { IPTABLES_LAYOUT } from "./base_chains.ts";
import { removeChains } from "./cleanup.ts";
import { describeServicePort } from "./describe.ts";
import { examineHost } from "./host.ts";
import { createReconciler, type Reconciler } from "./reconcile.ts";
import { createRuleset, type Ruleset } from "./ruleset.ts";
import { createIptablesTools } from "./tools.ts";

/** The iptables backend of one family. */
export function createIptablesBackend(options: BackendOptions): Backend {
  const { family, runner, clock, logger } = options;
  const tools = createIptablesTools(family, runner);
  const conntrack = createConntrackCleaner(family, runner);
  let parts: { readonly ruleset: Ruleset; readonly reconciler: Reconciler } | undefined;

  let routeIsDue = false;

  function ready() {
    if (!parts) throw new Error("the iptables backend was asked to sync before its setup succeeded");
    return parts;
  }

  /** What is done once the rules are right; its failures hold nothing up. */
  async function finish(reconciler: Reconciler): Promise<SyncResult> {
    if (routeIsDue) {
      routeIsDue = false;
      // A sysctl that hangs must not hold up a sync.
      writeSysctls(runner, logger, [{ name: "net.ipv4.conf.all.route_localnet", value: 1 }]);
    }
    const problems: SyncProblem[] = reconciler.problems();
    const startedMs = clock.monotonic();
    const { deleted, problem } = await conntrack.tryClean(logger, clock);
    if (problem) problems.push(problem);
    const figures = reconciler.takeFigures(), rules = reconciler.rules();
    return {
      problems,
      figures: {
        iptables_rules_nat: rules.nat,
        iptables_rules_filter: rules.filter,
        iptables_rules_last_nat: figures.rulesLast.nat,
        iptables_rules_last_filter: figures.rulesLast.filter,
        chains_written: figures.chainsWritten,
        chains_deleted: figures.chainsDeleted,
        restores: figures.restores,
        restore_failures: figures.restoreFailures,
        drift_repaired: figures.driftedChains,
        conntrack_deleted: deleted,
        conntrack_ms: clock.monotonic() - startedMs,
      },
    };
  }

  /**
   * Whether 127.0.0.1 serves node ports, which can be redirected to a pod only where the kernel routes loopback addresses.
   */
  function routesLoopback(settings: FamilySettings): boolean {
    const servesLoopback = !settings.nodePortPrefixes ||
      settings.nodePortPrefixes.some((prefix) => prefixContains(prefix, "127.0.0.1"));
    return family === "IPv4" && settings.localhostNodePorts && servesLoopback;
  }

  return {
    async setup() {
      const host = await examineHost(family, createIptablesTools(family, repeatingRunner(runner)));
      logger.info("iptables is ready", { flavour: host.flavour, hairpin: host.hairpin });
      const ruleset = createRuleset(host);
      parts = {
        ruleset,
        reconciler: createReconciler({ layout: IPTABLES_LAYOUT, ruleset, tools, flavour: host.flavour, logger }),
      };
    },
    async sync(delta) {
      const { ruleset, reconciler } = ready();
      conntrack.noteDelta(ruleset, delta);
      reconciler.forgetRefused([
        ...delta.deleted,
        ...delta.set.map((port) => servicePortKey(port.name, port.protocol)),
      ]);
      reconciler.touch(ruleset.apply(delta));
      if (delta.settings) routeIsDue = routesLoopback(delta.settings);
      await reconciler.run();
      return await finish(reconciler);
    },
    async resync() {
      const { reconciler } = ready();
      reconciler.retryRefused();
      await reconciler.compareAndRun();
      return await finish(reconciler);
    },
    async cleanup() {
      await removeChains(tools);
    },
    describe(key) {
      const described = parts && describeServicePort(parts.ruleset, key);
      return described && { parts: described, problem: parts?.reconciler.problemOf(key)?.message };
    },
  };
}
