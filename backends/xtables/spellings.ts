import type { HeldChain } from "./shadow.ts";

/** Chains that this host's iptables-save prints in another way than they were written, which is no difference. */
export interface Spellings {
  /** Whether what a chain reads as is known to be what was written. */
  areSame(id: string, written: HeldChain, reads: HeldChain): boolean;
  /**
   * A chain that reads after it was written anew as it did before. The second time in a row that is taken for a
   * spelling: a tool that says it has written what it has not makes it look the same once. False where it can be none.
   */
  suspect(id: string, written: HeldChain, reads: HeldChain): boolean;
  /** Takes nothing for a spelling any more. */
  forget(): void;
}

interface Spelling {
  readonly written: number;
  readonly reads: number;
}

/** None are known yet. */
export function createSpellings(): Spellings {
  const known = new Map<string, Spelling>(), suspected = new Map<string, Spelling>();
  const holds = (map: ReadonlyMap<string, Spelling>, id: string, written: HeldChain, reads: HeldChain) => {
    const spelling = map.get(id);
    return spelling?.written === written.hash && spelling.reads === reads.hash;
  };
  return {
    areSame: (id, written, reads) => holds(known, id, written, reads),
    suspect(id, written, reads) {
      if (written.rules !== reads.rules) return false;
      (holds(suspected, id, written, reads) ? known : suspected).set(id, { written: written.hash, reads: reads.hash });
      return true;
    },
    forget() {
      known.clear();
      suspected.clear();
    },
  };
}
