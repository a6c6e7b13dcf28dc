import { type FamilySettings, servicePortKey, type SyncProblem } from "../../core/model.ts";
import { prefixContains } from "../../platform/address.ts";
import type { Backend, BackendOptions, SyncResult } from "../backend.ts";
import { createConntrackCleaner } from "../conntrack.ts";
import { writeSysctls } from "../sysctl.ts";
import { IPTABLES_LAYOUT } from "./base_chains.ts";
import { removeChains } from "./cleanup.ts";
import { describeServicePort } from "./describe.ts";
import { examineHost } from "./host.ts";
import { readPacketCounts } from "./packet_counts.ts";
import { createReconciler, type Reconciler } from "./reconcile.ts";
import { createRuleset, type Ruleset } from "./ruleset.ts";
import { createIptablesTools } from "./tools.ts";

/** The iptables backend of one family. */
export function createIptablesBackend(options: BackendOptions): Backend {
  const { family, runner, clock, logger } = options;
  const tools = createIptablesTools(family, runner);
  const conntrack = createConntrackCleaner(family, runner);
  let parts: { readonly ruleset: Ruleset; readonly reconciler: Reconciler } | undefined;

  function ready() {
    if (!parts) throw new Error("the iptables backend was asked to sync before its setup succeeded");
    return parts;
  }

  /** What is done once the rules are right; its failures hold nothing up. */
  async function finish(reconciler: Reconciler): Promise<SyncResult> {
    const problems: SyncProblem[] = reconciler.problems();
    const startedMs = clock.monotonic();
    const { deleted, problem } = await conntrack.tryClean(logger);
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

  /** 127.0.0.1 can be redirected to a pod only where the kernel routes loopback addresses (route_localnet). */
  async function permitLocalhostNodePorts(settings: FamilySettings): Promise<void> {
    const servesLoopback = !settings.nodePortPrefixes ||
      settings.nodePortPrefixes.some((prefix) => prefixContains(prefix, "127.0.0.1"));
    if (family !== "IPv4" || !settings.localhostNodePorts || !servesLoopback) return;
    await writeSysctls(runner, logger, [{ name: "net.ipv4.conf.all.route_localnet", value: 1 }]);
  }

  return {
    async setup() {
      const host = await examineHost(family, tools);
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
      if (delta.settings) await permitLocalhostNodePorts(delta.settings);
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
    packetCounts: () => readPacketCounts(family, tools),
    describe(key) {
      const described = parts && describeServicePort(parts.ruleset, key);
      return described && { parts: described, problem: parts?.reconciler.problemOf(key)?.message };
    },
  };
}
