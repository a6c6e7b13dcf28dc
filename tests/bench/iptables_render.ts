import type { ServicePort } from "../../core/model/mod.ts";
import { TABLES } from "../../backends/xtables/chains.ts";
import { createRuleset, type Ruleset } from "../../backends/iptables/ruleset.ts";
import { type ChainsByTable, IPTABLES_LAYOUTS } from "../../backends/xtables/mod.ts";
import { fakeSettings } from "../fakes/service_port.ts";
import { clusterServicePort, forEachService } from "./cluster.ts";
import type { Stage } from "./stage.ts";

/** A ruleset without services. */
export function emptyRuleset(): Ruleset {
  const layout = IPTABLES_LAYOUTS.IPv4;
  return createRuleset({ layout, family: "IPv4", hairpin: "compare", randomFully: true, tcpLiberal: () => false });
}

/** Replaces all service ports of a ruleset and returns the touched chains. */
export function setAll(ruleset: Ruleset, ports: readonly ServicePort[]): ChainsByTable {
  return ruleset.apply({ revision: 1, base: undefined, settings: fakeSettings(), set: ports, deleted: [] });
}

/** Changes one service port of a ruleset and returns the touched chains. */
export function setOne(ruleset: Ruleset, port: ServicePort): ChainsByTable {
  return ruleset.apply({ revision: 2, base: 1, settings: undefined, set: [port], deleted: [] });
}

/** Renders the rules of every chain; a change is one service port and the chains it touches. */
export const iptablesRenderStage: Stage<Ruleset> = {
  name: "iptables: render",
  prepare(size) {
    const ports = forEachService(size, (i) => clusterServicePort(i));
    return {
      fill() {
        const ruleset = emptyRuleset();
        renderAll(ruleset, setAll(ruleset, ports));
        return ruleset;
      },
      change(ruleset, index, round) {
        const port = clusterServicePort(index, round);
        return () => renderAll(ruleset, setOne(ruleset, port));
      },
    };
  },
};

/** Renders these chains and returns the number of their rules. */
function renderAll(ruleset: Ruleset, chains: ChainsByTable): number {
  let rules = 0;
  for (const table of TABLES) {
    for (const chain of chains[table] ?? []) rules += ruleset.render(table, chain)?.rules.length ?? 0;
  }
  return rules;
}
