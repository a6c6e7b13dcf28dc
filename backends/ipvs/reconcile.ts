import type { Family, SyncCounts } from "../../core/model/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import { createAccumulator, createReconciler, type Reconciler, type Refusals, type Target } from "../reconcile/mod.ts";
import { isHostFailure, type Runner } from "../tools/mod.ts";
import type { ChainReconciler } from "../xtables/mod.ts";
import type { Desired } from "./desired.ts";
import {
  type AddressChange,
  createDummyInterface,
  createHeldAddresses,
  type DummyInterface,
  type HeldAddresses,
} from "./addresses.ts";
import type { IpvsCount } from "./mode.ts";
import { IPVS_LAYOUTS, loadBalancerFrontends } from "./rules.ts";
import { createServerSync, type ServerSyncOptions } from "./server_sync.ts";
import { createSets, SET_KINDS, type SetChange, setName, type Sets } from "./sets.ts";

/** Brings everything to the desired state. Between two listings, a comparison reads only addresses and rules. */
export interface IpvsReconciler extends Reconciler<true, string> {
  /** The time until a run is needed even if nothing changes; undefined if none is. */
  againAfterMs(): number | undefined;
  /** The counts since the last call. */
  takeCounts(): SyncCounts<IpvsCount>;
}

/** The parts that a reconciler works with. */
interface ReconcilerOptions extends ServerSyncOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly refusals: Refusals<string>;
  readonly chains: ChainReconciler;
}

/** Creates a reconciler that has not read the kernel yet. */
export function createIpvsReconciler(options: ReconcilerOptions): IpvsReconciler {
  const { family, runner, desired, refusals, chains, clock } = options;
  const servers = createServerSync(options);
  const sets = createSetSync(desired, createSets(family, runner), family);
  const dummy = createDummyInterface(family, runner);
  const addresses = createAddressSync(desired, dummy, createHeldAddresses(family, runner));
  let rulesFollow = "";

  function touchRules(): void {
    const now = JSON.stringify([desired.settings(), loadBalancerFrontends(desired.closedToNode())]);
    if (now === rulesFollow) return;
    rulesFollow = now;
    const { mangle, filter, nat } = IPVS_LAYOUTS[family].baseChains;
    chains.touch({ mangle: new Set(mangle), filter: new Set(filter), nat: new Set(nat) });
  }

  /**
   * Sets come first, since rules refer to them and masquerading depends on them; then the rules, so that they are in effect
   * before the first packet to a new address. Then, as in kube-proxy, new addresses are bound after their virtual servers exist
   * and before the virtual servers have real servers: until then, packets to a new address are rejected instead of routed
   * elsewhere or delivered to another program on this host. A failure of the rules does not delay the rest.
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
    async list(_, isFirst) {
      const udpFrontends = isFirst ? new Set<UdpFrontend>() : undefined;
      // The node's own addresses first, since the desired state depends on them.
      const drifted = await addresses.read() + await sets.read() + await servers.read(udpFrontends);
      return { realized: true, drifted, udpFrontends };
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
    // A refused change is still a difference in a ledger.
    retry() {},
  };
  const reconciler = createReconciler({ target, refusals, clock });
  return {
    ...reconciler,
    problems: () => [...reconciler.problems(), ...chains.problems()],
    againAfterMs: servers.againAfterMs,
    takeCounts() {
      const { chains_written: _written, chains_deleted: _deleted, restores: _restores, ...ofRules } = chains
        .takeCounts();
      return {
        ...ofRules,
        virtual_servers: desired.servers.size(),
        server_operations: servers.takeOperations(),
        set_changes: sets.takeChanges(),
        drift_repaired: reconciler.takeDrifted() + ofRules.drift_repaired,
      };
    },
  };
}

/** The maximum number of refused elements that one write leaves out. */
const SEARCH_LIMIT = 32;

/** Brings the kernel's sets to the desired state. */
function createSetSync({ entries: ledger }: Desired, sets: Sets, family: Family) {
  let missing = new Set<string>();
  const written = createAccumulator(() => 0);
  return {
    /** Reads the kernel; returns how many elements other programs changed. */
    async read(): Promise<number> {
      const { names, entries } = await sets.list();
      missing = new Set(SET_KINDS.map((kind) => setName(kind, family))).difference(names);
      return ledger.adopt(entries);
    },
    /** Writes the differences, without those that the kernel refuses. Throws if the host is at fault. */
    async write(): Promise<void> {
      for (let tries = 0;; tries++) {
        const changes = ledger.differences().map(({ id, wanted }): SetChange => (
          { does: wanted ? "add" : "del", entry: id }
        ));
        if (changes.length === 0 && missing.size === 0) return;
        const failure = await sets.apply(missing, changes);
        if (failure === undefined) {
          missing = new Set();
          written.value += changes.length;
          for (const { entry } of changes) ledger.settle(entry);
          return;
        }
        const { entry, kind, text } = failure;
        const isSearchable = kind !== "absent" && !isHostFailure(failure) && tries < SEARCH_LIMIT;
        if (entry === undefined || !isSearchable) throw new Error(text);
        ledger.refuse(entry, text);
      }
    },
    takeChanges: written.take,
  };
}

/** Brings the dummy interface's addresses to the desired state. */
function createAddressSync(desired: Desired, dummy: DummyInterface, held: HeldAddresses) {
  const { addresses: ledger } = desired;
  let hasDummy = false, mayHold = true;
  return {
    /** Reads the host's addresses; returns how many of the dummy interface's other programs changed. */
    async read(): Promise<number> {
      const found = await dummy.list();
      hasDummy = found.hasDummy;
      const nodeIP = desired.settings()?.nodeIP;
      // A dry run lists no addresses.
      desired.setNodeAddresses(found.node.length > 0 || nodeIP === undefined ? found.node : [nodeIP]);
      return ledger.adopt(found.dummy);
    },
    /** The addresses that the next `write` adds. */
    toAdd: () => new Set(ledger.differences().filter(({ wanted }) => wanted).map(({ id }) => id)),
    /** Writes the differences in one call. Throws if the kernel accepts none of them. */
    async write(): Promise<void> {
      if (!hasDummy) await dummy.create();
      hasDummy = true;
      const changes = ledger.differences().map(({ id, wanted }): AddressChange => (
        { does: wanted ? "add" : "del", address: id }
      ));
      const failures = changes.length === 0 ? new Map<string, string>() : await dummy.apply(changes);
      // Another mode holds addresses while it takes over from this one; the interface has them again.
      if (mayHold) await held.releaseAll();
      mayHold = false;
      for (const { address } of changes) {
        const failure = failures.get(address);
        if (failure === undefined) ledger.settle(address);
        else ledger.refuse(address, failure);
      }
    },
  };
}
