/** Judges the chains of other programs while packets do not flow. */
import type { DroppingRule, ForeignChain } from "../../../backends/foreign/mod.ts";
import type { PathFinding } from "../path_findings.ts";

const MOST_SUSPECTS = 3;

/** The findings about foreign chains: first the chains that certainly stop the pods' packets, then the most likely suspects. */
export function judgeChains(chains: readonly ForeignChain[]): readonly PathFinding[] {
  const found = chains.flatMap(suspectsOf);
  found.sort((a, b) => Number(b.certain) - Number(a.certain) || a.rank - b.rank);
  // Without nft, the default variant of iptables may be the legacy one, which is read twice.
  const different = [...new Map(found.map((one) => [one.detail, one])).values()];
  return different.slice(0, MOST_SUSPECTS).map(({ cause, detail, certain }) => ({ cause, detail, certain }));
}

/** Names the rule of a chain. */
export function ruleText({ table, name }: ForeignChain, { text }: DroppingRule): string {
  return `chain ${name} of ${table} has the rule “${text}”`;
}

/** The packets that a chain may drop; the lowest rank is the most likely. */
function suspectsOf(foreign: ForeignChain): readonly (PathFinding & { readonly rank: number })[] {
  const { table, name, hook, dropsByPolicy, hasRules, dropping } = foreign;
  const chain = `chain ${name} of ${table}`, isForward = hook === "forward";
  const suspect = (detail: string, certain: boolean, rank: number) => (
    // Packets of the canary do not pass the hook forward.
    { cause: "foreign-chain", detail, certain, rank: rank + (isForward ? 10 : 0) } as const
  );
  const suspects = dropping.map((rule) =>
    rule.isForAll
      ? suspect(`${chain} drops all packets that reach its rule “${rule.text}”`, rule.isCertain, 0)
      : suspect(ruleText(foreign, rule), rule.isCertain, 1)
  );
  if (dropsByPolicy && hasRules) suspects.push(suspect(`${chain} drops what its rules do not accept`, false, 2));
  else if (dropsByPolicy) suspects.push(suspect(`${chain} drops every packet`, isForward, 0));
  return suspects;
}
