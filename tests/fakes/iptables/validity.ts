import { KernelRefused } from "./errors.ts";
import type { Rule } from "./rule.ts";
import type { Chain, Table } from "./tables.ts";

/** A rule added by a change. */
export interface AddedRule {
  readonly line: number;
  readonly chain: string;
  readonly rule: Rule;
}

/**
 * The errors that the kernel finds in a table as a whole: loops of chains, and targets that are reachable from a hook where
 * they are invalid. The kernel checks only chains that are reachable from a hook.
 */
export function refusedRules(
  table: Table,
  added: readonly AddedRule[],
): { readonly line: number; readonly refused: KernelRefused }[] {
  for (const hook of table.values()) {
    if (hook.policy === undefined) break;
    const fault = findFault(table, hook);
    if (!fault) continue;
    const culprit = added.findLast(({ chain, rule }) => chain === fault.chain && rule === fault.rule) ?? added.at(-1)!;
    const refused = new KernelRefused("RULE_APPEND", fault.reason, `rule in chain ${culprit.chain}`);
    return [{ line: culprit.line, refused }];
  }
  return [];
}

interface Fault {
  readonly chain: string;
  readonly rule: Rule;
  readonly reason: string;
}

function findFault(table: Table, hook: Chain): Fault | undefined {
  const visits = new Map<string, "open" | "done">();
  const search = (chain: Chain): Fault | undefined => {
    visits.set(chain.name, "open");
    for (const rule of chain.rules) {
      if (rule.places.hooks && !rule.places.hooks.includes(hook.name)) {
        return { chain: chain.name, rule, reason: "Invalid argument" };
      }
      if (rule.target.action !== "jump") continue;
      const visit = visits.get(rule.target.chain);
      if (visit === "done") continue;
      if (visit === "open") return { chain: chain.name, rule, reason: "Too many links" };
      const fault = search(table.get(rule.target.chain)!);
      if (fault) return fault;
    }
    visits.set(chain.name, "done");
    return undefined;
  };
  return search(hook);
}
