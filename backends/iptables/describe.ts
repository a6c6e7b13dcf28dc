import type { RulePart, ServicePortKey } from "../../core/model/mod.ts";
import { frontendRules, TREE_TABLE } from "./frontends.ts";
import type { Ruleset } from "./ruleset.ts";
import { chainsOf } from "./service_chains.ts";

/**
 * Describes the rules of a service port in the order in which packets traverse them; undefined if the ruleset lacks it.
 */
export function describeServicePort(ruleset: Ruleset, key: ServicePortKey): readonly RulePart[] | undefined {
  const port = ruleset.servicePort(key);
  if (port === undefined) return undefined;
  const dispatch = frontendRules(port, key).map(({ tree, place, rule }): RulePart => {
    const path = ruleset.dispatchPath(tree, place);
    return { place: `${TREE_TABLE[tree]} ${path.join(" > ")}`, lines: [rule()] };
  });
  const own = chainsOf(port).map((chain): RulePart => ({
    place: `nat ${chain}`,
    lines: ruleset.render("nat", chain)?.rules ?? [],
  }));
  return [...dispatch, ...own.reverse()];
}
