import { isTable, type Jump, type Layout, type Table } from "./chains.ts";
import type { IptablesTools } from "./tools.ts";

/** A chain in the kernel, as far as known. */
interface HeldChain {
  /** `hashRules` of its rules as iptables-save prints them; -1 if they are unknown. */
  readonly hash: number;
  readonly rules: number;
  /** Its rules without their `-A CHAIN `, which only a dry run keeps. */
  readonly lines?: readonly string[];
}

/** The character between two rules in their hash. */
const LINE_END = 10;

/** A chain without rules. */
export const EMPTY_CHAIN: HeldChain = { hash: hashRules([]), rules: 0, lines: [] };

/** A chain that may exist, with any rules. */
export const UNKNOWN_CHAIN: HeldChain = { hash: -1, rules: 0 };

/** The chains of a table in the kernel, as far as known. */
function createHeldChains() {
  const chains = new Map<string, HeldChain>();
  let rules = 0;
  return {
    get: (chain: string) => chains.get(chain),
    /** Sets the state of a chain; undefined if it is deleted. */
    set(chain: string, held: HeldChain | undefined): void {
      rules += (held?.rules ?? 0) - (chains.get(chain)?.rules ?? 0);
      if (held) chains.set(chain, held);
      else chains.delete(chain);
    },
    names: () => chains.keys(),
    /** The number of rules in all chains together. */
    rules: () => rules,
  };
}

/** The realized state: the chains and jumps of a layout in the kernel. */
export interface RealizedState {
  readonly chains: Readonly<Record<Table, ReturnType<typeof createHeldChains>>>;
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
): Promise<RealizedState> {
  const chains = { mangle: createHeldChains(), filter: createHeldChains(), nat: createHeldChains() };
  const jumps = new Map<Jump, number>();
  let open: ReturnType<typeof openChain> | undefined;
  const openChain = (table: string, name: string) => {
    const into = isTable(table) && chains[table].get(name) ? chains[table] : undefined;
    return {
      table,
      name,
      into,
      hash: createRulesHash(),
      rules: 0,
      lines: tools.keepsRules ? [] as string[] : undefined,
    };
  };
  const finishChain = () => {
    if (open) open.into?.set(open.name, { hash: open.hash.value(), rules: open.rules, lines: open.lines });
  };
  await tools.save({
    onChain(table, name) {
      if (!isTable(table) || !baseChains[table].includes(name) && !isServiceChain(table, name)) return;
      chains[table].set(name, EMPTY_CHAIN);
    },
    onRule(table, name, rule) {
      if (open?.name !== name || open.table !== table) {
        finishChain();
        open = openChain(table, name);
      }
      if (open.into) {
        open.hash.add(rule);
        open.rules++;
        open.lines?.push(rule);
        onRule?.(rule);
      } else {
        const jump = wantedJumps.find((jump) => jump.table === table && jump.from === name && jump.rule === rule);
        if (jump) jumps.set(jump, (jumps.get(jump) ?? 0) + 1);
      }
    },
  });
  finishChain();
  return { chains, jumps };
}

/** The jumps to insert, and the surplus ones to delete. */
export function jumpsToMove(
  { jumps: held }: RealizedState,
  { jumps }: Layout,
): { readonly missing: readonly Jump[]; readonly surplus: readonly Jump[] } {
  return {
    missing: jumps.filter((jump) => !held?.has(jump)),
    surplus: [...held ?? []].flatMap(([jump, count]) => Array.from({ length: count - 1 }, () => jump)),
  };
}

/** A running 53-bit hash of rules in their order, stored instead of a chain's rules. */
function createRulesHash() {
  let a = 0xdeadbeef | 0, b = 0x41c6ce57 | 0;
  return {
    add(rule: string): void {
      for (let i = 0; i <= rule.length; i++) {
        const code = i < rule.length ? rule.charCodeAt(i) : LINE_END;
        a = Math.imul(a ^ code, 2654435761);
        b = Math.imul(b ^ code, 1597334677);
      }
    },
    /** The hash of everything added so far. */
    value(): number {
      const x = Math.imul(a ^ a >>> 16, 2246822507) ^ Math.imul(b ^ b >>> 13, 3266489909);
      const y = Math.imul(b ^ b >>> 16, 2246822507) ^ Math.imul(a ^ a >>> 13, 3266489909);
      return 4294967296 * (0x1fffff & y) + (x >>> 0);
    },
  };
}

/** The hash of a chain's rules, in order. */
export function hashRules(rules: readonly string[]): number {
  const hash = createRulesHash();
  for (const rule of rules) hash.add(rule);
  return hash.value();
}
