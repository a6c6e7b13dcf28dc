import { type Jump, type Layout, type Table, TABLES } from "./chains.ts";
import type { IptablesTools } from "./tools.ts";

/** A chain in the kernel, as far as known. */
export interface HeldChain {
  /** `hashRules` of its rules as iptables-save prints them; -1 if they are unknown. */
  readonly hash: number;
  /** The number of its rules. */
  readonly rules: number;
  /** Its rules without their `-A CHAIN `, which only a dry run keeps. */
  readonly lines?: readonly string[];
}

/** A chain without rules. */
export const EMPTY_CHAIN: HeldChain = { hash: hashRules([]), rules: 0, lines: [] };

/** A chain that may exist, with any rules. */
export const UNKNOWN_CHAIN: HeldChain = { hash: -1, rules: 0 };

/** The chains of a table in the kernel, as far as known. */
interface HeldChains {
  get(chain: string): HeldChain | undefined;
  /** Sets the state of a chain; undefined if it is deleted. */
  set(chain: string, held: HeldChain | undefined): void;
  names(): Iterable<string>;
  /** The number of rules in all chains together. */
  rules(): number;
}

function createHeldChains(): HeldChains {
  const chains = new Map<string, HeldChain>();
  let rules = 0;
  return {
    get: (chain) => chains.get(chain),
    set(chain, held) {
      rules += (held?.rules ?? 0) - (chains.get(chain)?.rules ?? 0);
      if (held) chains.set(chain, held);
      else chains.delete(chain);
    },
    names: () => chains.keys(),
    rules: () => rules,
  };
}

/** The chains and jumps of a layout in the kernel. */
export interface KernelState {
  readonly chains: Readonly<Record<Table, HeldChains>>;
  /** The jumps from built-in chains, and how often each is present; undefined if that is unknown. */
  jumps: ReadonlyMap<Jump, number> | undefined;
}

/**
 * Reads the chains and jumps of a layout, unwanted service chains included. Throws if the kernel cannot be read.
 * @param onRule called for each rule of these chains, without its `-A CHAIN `
 */
export async function readKernel(
  tools: IptablesTools,
  { jumps: wantedJumps, baseChains, isServiceChain }: Layout,
  onRule?: (rule: string) => void,
): Promise<KernelState> {
  const chains = { filter: createHeldChains(), nat: createHeldChains() };
  const jumps = new Map<Jump, number>();
  let table: Table | undefined;
  let chain = "", ours = false, hash = createTextHash(), rules = 0;
  let lines: string[] | undefined;

  const finishChain = () => {
    if (ours && table) chains[table].set(chain, { hash: hash.value(), rules, lines });
    ours = false;
    chain = "";
  };
  await tools.save((line) => {
    if (line.startsWith("-A ")) {
      if (!table) return;
      const end = line.indexOf(" ", 3);
      const name = line.slice(3, end);
      if (name !== chain) {
        finishChain();
        chain = name;
        ours = chains[table].get(name) !== undefined;
        hash = createTextHash();
        rules = 0;
        lines = tools.keepsRules ? [] : undefined;
      }
      const rule = line.slice(end + 1);
      if (ours) {
        hash.add(rule);
        hash.add("\n");
        rules++;
        lines?.push(rule);
        onRule?.(rule);
      } else {
        const jump = wantedJumps.find((jump) => jump.table === table && jump.from === name && jump.rule === rule);
        if (jump) jumps.set(jump, (jumps.get(jump) ?? 0) + 1);
      }
    } else if (line.startsWith(":")) {
      const name = line.slice(1, line.indexOf(" "));
      if (table && (baseChains[table].includes(name) || isServiceChain(table, name))) {
        chains[table].set(name, EMPTY_CHAIN);
      }
    } else if (line.startsWith("*")) {
      finishChain();
      table = TABLES.find((known) => known === line.slice(1));
    } else if (line === "COMMIT") {
      finishChain();
      table = undefined;
    }
  });
  return { chains, jumps };
}

/** Chains that this host's iptables-save prints differently from how they were written, which is no drift. */
export interface Spellings {
  /** Whether the text that iptables-save prints is a known other spelling of the written one. */
  areSame(id: string, written: HeldChain, reads: HeldChain): boolean;
  /**
   * Notes that a chain reads the same after its repair as before. Only the second time in a row counts as a spelling: the first
   * time, the tool may have reported success without writing. Returns false if it cannot be a spelling.
   */
  suspect(id: string, written: HeldChain, reads: HeldChain): boolean;
  /** Clears all spellings. */
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

/**
 * A running 53-bit hash of text, stored instead of a chain's rules. The probability of a collision of two chains is one in
 * 9,000,000,000,000,000.
 */
interface TextHash {
  add(text: string): void;
  /** The hash of everything added so far. */
  value(): number;
}

/** A hash of the empty text. */
function createTextHash(): TextHash {
  let a = 0xdeadbeef | 0, b = 0x41c6ce57 | 0;
  return {
    add(text) {
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        a = Math.imul(a ^ code, 2654435761);
        b = Math.imul(b ^ code, 1597334677);
      }
    },
    value() {
      const x = Math.imul(a ^ a >>> 16, 2246822507) ^ Math.imul(b ^ b >>> 13, 3266489909);
      const y = Math.imul(b ^ b >>> 16, 2246822507) ^ Math.imul(a ^ a >>> 13, 3266489909);
      return 4294967296 * (0x1fffff & y) + (x >>> 0);
    },
  };
}

/** The hash of a chain's rules, in order. */
export function hashRules(rules: readonly string[]): number {
  const hash = createTextHash();
  for (const rule of rules) {
    hash.add(rule);
    hash.add("\n");
  }
  return hash.value();
}
