import type { Family } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import {
  createAccumulator,
  createReconciler,
  createRefusals,
  type Reconciler,
  type Refusals,
  type Target,
} from "../reconcile/mod.ts";
import { isHostFailure } from "../tools/mod.ts";
import type { ChainReconciler } from "../xtables/mod.ts";
import type { Desired } from "./desired.ts";
import type { AddressChange, DummyInterface } from "./dummy_interface.ts";
import { createPending } from "./ledger.ts";
import { IPVS_LAYOUT, type Rules } from "./rules.ts";
import { createServerSync, type ServerSyncOptions } from "./server_sync.ts";
import { type Entry, SET_KINDS, type SetChange, setName, type Sets } from "./sets.ts";

/** Counts of one reconciliation, for metrics (see SyncResult). */
interface ReconcileFigures {
  readonly serverOperations: number;
  readonly setChanges: number;
  /** The number of objects that other programs changed, without rules. */
  readonly drifted: number;
}

/**
 * Brings virtual servers, sets, addresses and rules to the desired state. Between two listings, a comparison reads only
 * addresses and rules.
 */
export interface IpvsReconciler extends Pick<Reconciler<true, string>, "run" | "compareAndRun" | "problems"> {
  /** The time until a run is needed even if nothing changes; undefined if none is. */
  againAfterMs(): number | undefined;
  /** The counts since the last call. */
  takeFigures(): ReconcileFigures;
  /** The UDP frontends that the kernel served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** The parts that a reconciler works with. */
interface ReconcilerOptions extends Omit<ServerSyncOptions, "refusals"> {
  readonly family: Family;
  readonly sets: Sets;
  readonly dummy: DummyInterface;
  readonly rules: Rules;
  readonly chains: ChainReconciler;
  readonly logger: Logger;
}

/** Creates a reconciler that has not read the kernel yet. */
export function createIpvsReconciler(options: ReconcilerOptions): IpvsReconciler {
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
    // A refused change is still a difference in a ledger.
    retry() {},
  };
  const reconciler = createReconciler({ target, refusals, clock });
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

/** Brings the kernel's sets to the desired state. */
interface SetSync {
  /** Reads the kernel; returns how many elements other programs changed. */
  read(): Promise<number>;
  /**
   * Writes the differences in one call, which it repeats without each element that the kernel refuses. Throws if the
   * host is at fault.
   */
  write(): Promise<void>;
  /** The number of changes written since the last call. */
  takeChanges(): number;
}

/** The maximum number of refused elements that one write leaves out. */
const SEARCH_LIMIT = 32;

/** Creates a synchronizer of sets that has not read them yet. */
function createSetSync(desired: Desired, sets: Sets, refusals: Refusals<string>, family: Family): SetSync {
  const { entries: ledger } = desired;
  let missing = new Set<string>();
  const pending = createPending("set element", ledger, refusals);
  const written = createAccumulator(() => 0);

  function toWrite(): SetChange[] {
    return pending.differences().map(({ id, wanted }) => ({ does: wanted ? "add" : "del", entry: id }));
  }

  return {
    async read() {
      const { names, entries } = await sets.list();
      missing = new Set(SET_KINDS.map((kind) => setName(kind, family)).filter((name) => !names.has(name)));
      const held = new Map<Entry, true>();
      for (const entry of entries) held.set(entry, true);
      return ledger.adopt(held);
    },
    async write() {
      for (let tries = 0;; tries++) {
        const changes = toWrite();
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
        pending.refuse(entry, text);
      }
    },
    takeChanges: written.take,
  };
}

/** Brings the dummy interface's addresses to the desired state. */
interface AddressSync {
  /**
   * Reads the host's addresses, including the node's own; returns how many addresses of the dummy interface other programs
   * changed.
   */
  read(): Promise<number>;
  /** The addresses that the next `write` adds. */
  toAdd(): ReadonlySet<string>;
  /** Writes the differences in one call. Throws if the kernel accepts none of them. */
  write(): Promise<void>;
}

/** Creates a synchronizer of addresses that has not read them yet. */
function createAddressSync(desired: Desired, dummy: DummyInterface, refusals: Refusals<string>): AddressSync {
  const { addresses: ledger } = desired;
  let hasDummy = false;
  const pending = createPending("address", ledger, refusals);
  return {
    async read() {
      const found = await dummy.list();
      hasDummy = found.hasDummy;
      const nodeIP = desired.settings()?.nodeIP;
      // A dry run lists no addresses.
      desired.setNodeAddresses(found.node.length > 0 || nodeIP === undefined ? found.node : [nodeIP]);
      return ledger.adopt(new Map([...found.dummy].map((address) => [address, true])));
    },
    toAdd: () => new Set(pending.differences().filter(({ wanted }) => wanted).map(({ id }) => id)),
    async write() {
      if (!hasDummy) await dummy.create();
      hasDummy = true;
      const changes = pending.differences().map(({ id, wanted }): AddressChange => ({
        does: wanted ? "add" : "del",
        address: id,
      }));
      if (changes.length === 0) return;
      const failures = await dummy.apply(changes);
      for (const { address } of changes) {
        const failure = failures.get(address);
        if (failure === undefined) ledger.settle(address);
        else pending.refuse(address, failure);
      }
    },
  };
}
