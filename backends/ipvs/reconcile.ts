import type { Family, SyncProblem } from "../../core/model/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import type { Reconciler as ChainReconciler } from "../xtables/mod.ts";
import { createAddressSync } from "./address_sync.ts";
import type { Desired } from "./desired.ts";
import type { DummyInterface } from "./dummy_interface.ts";
import type { Sets } from "./ipset.ts";
import type { VirtualServers } from "./ipvsadm.ts";
import { createRefusals } from "./refusals.ts";
import { IPVS_LAYOUT, type Rules } from "./rules.ts";
import { createServerSync } from "./server_sync.ts";
import { createSetSync } from "./set_sync.ts";

/** Figures of one reconciliation, for metrics (see SyncResult). */
export interface ReconcileFigures {
  readonly serverOperations: number;
  readonly setChanges: number;
  readonly drifted: number;
}

/** Brings all that IPVS mode has in the kernel to what is desired, and knows what is still to be done. */
export interface Reconciler {
  /** Writes what differs. Throws where the kernel could not be brought to it. */
  run(): Promise<void>;
  /** Looks at the kernel anew, as often as that is due, and repairs what differs. Throws as `run` does. */
  compareAndRun(): Promise<void>;
  problems(): SyncProblem[];
  /** In how long to run again although nothing changed; undefined where nothing is to be looked after. */
  againAfterMs(): number | undefined;
  /** The figures since this was last asked. */
  takeFigures(): ReconcileFigures;
  /** The UDP frontends that the kernel had virtual servers for at the first look; empty when asked again. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** What the reconciler works with. */
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

/** Listing costs as much as writing did, so that no more than this share of the time goes into comparing everything. */
const COMPARING_SHARE = 0.01;

/** A reconciler that has not looked at the kernel yet. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { family, desired, rules, chains, clock } = options;
  const refusals = createRefusals(options.logger);
  const servers = createServerSync({ ...options, refusals });
  const sets = createSetSync(desired, options.sets, refusals, family);
  const addresses = createAddressSync(desired, options.dummy, refusals);
  let isKnown = false;
  let compareNotBeforeMs = 0;
  let drifted = 0;
  let rulesFollow = "";

  /** Reads the kernel; the node's own addresses first, since what is wanted follows from them. */
  async function read(): Promise<number> {
    const startedMs = clock.monotonic();
    const unexpected = await addresses.read() + await sets.read() + await servers.read();
    compareNotBeforeMs = clock.monotonic() + (clock.monotonic() - startedMs) / COMPARING_SHARE;
    return unexpected;
  }

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
   * The sets come first, since rules name them and masquerading depends on them; then the rules, which hold before there is a
   * packet for them. Then, as kube-proxy has it, what is new is bound between its virtual server and its real ones:
   * a packet for it is refused until all is there, is never routed elsewhere, never reaches another program of this
   * host, and what the node reaches others reach too. What the rules meet with does not hold up the rest.
   */
  async function write(writeRules: () => Promise<void>): Promise<void> {
    // A tool that fails or is killed leaves it open how much of its input is in effect.
    isKnown = false;
    await sets.write();
    touchRules();
    const [rulesWritten] = await Promise.allSettled([writeRules()]);
    await servers.announce(addresses.toAdd());
    await addresses.write();
    await servers.write();
    isKnown = true;
    if (rulesWritten.status === "rejected") throw rulesWritten.reason;
  }

  return {
    async run() {
      if (!isKnown) await read();
      await write(chains.run);
    },
    async compareAndRun() {
      refusals.clear();
      const wasKnown = isKnown;
      if (!isKnown || clock.monotonic() >= compareNotBeforeMs) {
        const unexpected = await read();
        if (wasKnown) drifted += unexpected;
      } else {
        drifted += await addresses.read();
      }
      await write(chains.compareAndRun);
    },
    problems: () => [...refusals.problems(), ...chains.problems()],
    againAfterMs: servers.againAfterMs,
    takeEarlierUdpFrontends: servers.takeEarlierUdpFrontends,
    takeFigures() {
      const figures = {
        serverOperations: servers.takeOperations(),
        setChanges: sets.takeChanges(),
        drifted,
      };
      drifted = 0;
      return figures;
    },
  };
}
