import type { ComparisonCause, Family, SyncProblem } from "../../core/model/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import { createReconciler as createCommonReconciler, createRefusals, type Target } from "../reconcile/mod.ts";
import type { Reconciler as ChainReconciler } from "../xtables/mod.ts";
import { createAddressSync } from "./address_sync.ts";
import type { Desired } from "./desired.ts";
import type { DummyInterface } from "./dummy_interface.ts";
import type { Sets } from "./ipset.ts";
import type { VirtualServers } from "./ipvsadm.ts";
import { IPVS_LAYOUT, type Rules } from "./rules.ts";
import { createServerSync } from "./server_sync.ts";
import { createSetSync } from "./set_sync.ts";

/** Figures of one reconciliation, for metrics (see SyncResult). */
export interface ReconcileFigures {
  readonly serverOperations: number;
  readonly setChanges: number;
  /** The number of objects that other programs changed, without rules. */
  readonly drifted: number;
}

/** Brings virtual servers, sets, addresses and rules to the desired state. */
export interface Reconciler {
  /** Writes the differences. Throws if the kernel could not be brought to the desired state. */
  run(): Promise<void>;
  /**
   * Compares the kernel with the desired state, retries what it refused, and repairs the differences. Between two
   * listings only addresses and rules are compared. Throws as `run` does.
   */
  compareAndRun(cause?: ComparisonCause): Promise<void>;
  /** Everything that the kernel refuses. */
  problems(): SyncProblem[];
  /** The time until a run is needed even if nothing changes; undefined if none is. */
  againAfterMs(): number | undefined;
  /** The figures since the last call. */
  takeFigures(): ReconcileFigures;
  /** The UDP frontends that the kernel served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** The parts that a reconciler works with. */
export interface ReconcilerOptions {
  readonly family: Family;
  readonly desired: Desired;
  readonly servers: VirtualServers;
  readonly sets: Sets;
  readonly dummy: DummyInterface;
  readonly rules: Rules;
  readonly chains: ChainReconciler;
  readonly excludePrefixes: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Creates a reconciler that has not read the kernel yet. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { family, desired, rules, chains, clock } = options;
  const refusals = createRefusals<string>(options.logger);
  const servers = createServerSync({ ...options, refusals });
  const sets = createSetSync(desired, options.sets, refusals, family);
  const addresses = createAddressSync(desired, options.dummy, refusals);
  let rulesFollow = "";

  function touchRules(): void {
    const settings = desired.settings();
    if (!settings) return;
    const closed = desired.closedToNode();
    const now = JSON.stringify([settings, closed]);
    if (now === rulesFollow) return;
    rulesFollow = now;
    rules.set(settings, closed);
    const { filter, nat } = IPVS_LAYOUT.baseChains;
    chains.touch({ filter: new Set(filter), nat: new Set(nat) });
  }

  /**
   * Sets come first, since rules refer to them and masquerading depends on them; then the rules, so that they are in
   * effect before the first packet to a new address. Then, as in kube-proxy, new addresses are bound after their
   * virtual servers exist and before those have real servers: until then, packets to a new address are rejected, and
   * are neither routed elsewhere nor delivered to another program on this host. A failure of the rules does not delay
   * the rest.
   */
  async function writeAll(writeRules: () => Promise<void>): Promise<PromiseSettledResult<void>> {
    await sets.write();
    touchRules();
    const [rulesWritten] = await Promise.allSettled([writeRules()]);
    await servers.announce(addresses.toAdd());
    await addresses.write();
    await servers.write();
    return rulesWritten;
  }

  // The ledgers of the desired state hold the realized state, as differences from it.
  const target: Target<true, string> = {
    async list() {
      // The node's own addresses first, since the desired state depends on them.
      return { realized: true, drifted: await addresses.read() + await sets.read() + await servers.read() };
    },
    glance: addresses.read,
    async write(_, { isComparison }) {
      const rulesWritten = await writeAll(isComparison ? chains.compareAndRun : chains.run).catch((error) => {
        // A tool that fails or is killed may have applied part of its input.
        reconciler.invalidate();
        throw error;
      });
      if (rulesWritten.status === "rejected") throw rulesWritten.reason;
      return "written";
    },
    // What was refused is still a difference in a ledger.
    retry() {},
  };
  const reconciler = createCommonReconciler({ target, refusals, clock });
  return {
    run: reconciler.run,
    compareAndRun: reconciler.compareAndRun,
    problems: () => [...reconciler.problems(), ...chains.problems()],
    againAfterMs: servers.againAfterMs,
    takeEarlierUdpFrontends: servers.takeEarlierUdpFrontends,
    takeFigures: () => ({
      serverOperations: servers.takeOperations(),
      setChanges: sets.takeChanges(),
      drifted: reconciler.takeDrifted(),
    }),
  };
}
