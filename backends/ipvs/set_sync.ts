import type { Family } from "../../core/model/mod.ts";
import { lacksMeans } from "../tools/mod.ts";
import type { Desired } from "./desired.ts";
import type { SetChange, Sets } from "./ipset.ts";
import type { Refusals } from "./refusals.ts";
import { type Entry, SET_KINDS, setName } from "./sets.ts";

/** Keeps the kernel's sets to what is desired. */
export interface SetSync {
  /** Reads the kernel; returns how many elements are not as they were believed to be. */
  read(): Promise<number>;
  /** Writes what differs, in one call. Throws where the kernel takes none of it. */
  write(): Promise<void>;
  /** How many changes there were since this was last asked. */
  takeChanges(): number;
}

/** How many elements that the kernel refuses are left out in one go. */
const SEARCH_LIMIT = 32;

/** Sets that have not been read yet. */
export function createSetSync(desired: Desired, sets: Sets, refusals: Refusals, family: Family): SetSync {
  const { entries: ledger } = desired;
  let missing = new Set<string>();
  let count = 0;

  function toWrite(): SetChange[] {
    return ledger.differences().filter(({ id, wanted }) => !refusals.has(id, wanted))
      .map(({ id, wanted }) => ({ does: wanted ? "add" : "del", entry: id }));
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
        const refused = await sets.apply(missing, changes);
        if (refused === undefined) {
          missing = new Set();
          count += changes.length;
          for (const { entry } of changes) ledger.settle(entry);
          return;
        }
        const { entry, failure } = refused;
        const isGone = /set with the given name does not exist/.test(failure);
        if (entry === undefined || isGone || lacksMeans(failure) || tries >= SEARCH_LIMIT) throw new Error(failure);
        const servicePort = ledger.owner(entry)?.replace(/\|\w+$/, "");
        refusals.add(entry, ledger.wanted(entry), `set element ${entry}`, servicePort, failure);
      }
    },
    takeChanges() {
      const taken = count;
      count = 0;
      return taken;
    },
  };
}
