/** Judges the chains of other programs, which drop packets whatever the rules of services say. */
import type { PathFinding } from "../../core/model/mod.ts";

/** The places in the kernel where a chain sees packets. */
export type Hook = "prerouting" | "input" | "forward" | "output" | "postrouting";

/** A rule that drops or rejects packets. */
export interface DroppingRule {
  /** The rule without its counters and its comment. */
  readonly text: string;
  /** Whether it has no conditions. */
  readonly isForAll: boolean;
  /** Whether it is the first rule of its chain. */
  readonly isFirst: boolean;
}

/** A chain that is not Sluice's. */
export interface ForeignChain {
  /** `table ip filter`. */
  readonly table: string;
  readonly name: string;
  /** Undefined for a chain to which only other chains lead. */
  readonly hook: Hook | undefined;
  readonly dropsByPolicy: boolean;
  readonly hasRules: boolean;
  /** Rules known to have matched no packet are left out, except those of `isCertain`. */
  readonly dropping: readonly DroppingRule[];
}

/** Whether a rule stops all packets of pods, also those that are still to come. */
export function isCertain(hook: Hook | undefined, { isForAll, isFirst }: Omit<DroppingRule, "text">): boolean {
  return hook === "forward" && isForAll && isFirst;
}

/** The chains of Sluice and kube-proxy in tables that they share. */
export const OWN_CHAINS = /^KUBE-/;
/** Rules that drop only packets of broken connections. */
const HARMLESS = /\bct ?state (?:\w+,)*invalid\b|--ctstate (?:\w+,)*INVALID\b/i;

/** Whether a rule that drops is worth a suspicion. */
export function isSuspect(rule: string): boolean {
  return !HARMLESS.test(rule);
}

/** The number of suspects that are named. */
const MOST_SUSPECTS = 3;

interface Suspect extends PathFinding {
  /** The least is the most likely. */
  readonly rank: number;
}

/** The findings of foreign chains: those that certainly stop the pods' packets first, then the most likely suspects. */
export function judgeChains(chains: readonly ForeignChain[]): readonly PathFinding[] {
  const found = chains.flatMap(suspectsOf);
  found.sort((a, b) => Number(b.certain) - Number(a.certain) || a.rank - b.rank);
  // Without nft, the default variant of iptables may be the legacy one, which is read twice.
  const different = [...new Map(found.map((one) => [one.detail, one])).values()];
  return different.slice(0, MOST_SUSPECTS).map(({ cause, detail, certain }) => ({ cause, detail, certain }));
}

function suspectsOf({ table, name, hook, dropsByPolicy, hasRules, dropping }: ForeignChain): readonly Suspect[] {
  const chain = `chain ${name} of ${table}`, isForward = hook === "forward";
  // Packets of the canary do not pass the hook forward.
  const rank = (base: number) => base + (isForward ? 10 : 0);
  const suspects: Suspect[] = dropping.map((rule) => ({
    cause: "foreign-chain",
    detail: rule.isForAll
      ? `${chain} drops all packets that reach its rule “${rule.text}”`
      : `${chain} has the rule “${rule.text}”`,
    certain: isCertain(hook, rule),
    rank: rank(rule.isForAll ? 0 : 1),
  }));
  if (dropsByPolicy) {
    const detail = hasRules ? `${chain} drops what its rules do not accept` : `${chain} drops every packet`;
    const certain = isForward && !hasRules;
    suspects.push({ cause: "foreign-chain", detail, certain, rank: rank(hasRules ? 2 : 0) });
  }
  return suspects;
}
