import type { HeldChain } from "./shadow.ts";

/** Chains that this host's iptables-save prints differently from how they were written, which is no drift. */
export interface Spellings {
  /** Whether the text that iptables-save prints is a known other spelling of the written one. */
  areSame(id: string, written: HeldChain, reads: HeldChain): boolean;
  /**
   * Notes that a chain reads after its repair as it did before. The second time in a row counts as a spelling: once may also
   * be a tool that reported success without writing. Returns false if it cannot be a spelling.
   */
  suspect(id: string, written: HeldChain, reads: HeldChain): boolean;
  /** Forgets all spellings. */
  forget(): void;
}

interface Spelling {
  readonly written: number;
  readonly reads: number;
}

/** No known spellings yet. */
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
