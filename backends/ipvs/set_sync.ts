import type { Family } from "../../core/model/mod.ts";
import { createAccumulator, type Refusals } from "../reconcile/mod.ts";
import { isHostFailure } from "../tools/mod.ts";
import type { Desired } from "./desired.ts";
import type { SetChange, Sets } from "./ipset.ts";
import { createPending } from "./pending.ts";
import { type Entry, SET_KINDS, setName } from "./sets.ts";

/** Brings the kernel's sets to the desired state. */
export interface SetSync {
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
export function createSetSync(desired: Desired, sets: Sets, refusals: Refusals<string>, family: Family): SetSync {
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
