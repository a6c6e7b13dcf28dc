import type { FigureDeclarations, ModeDescription } from "../../../backends/contract/mod.ts";
import type { Mode } from "../../../backends/mod.ts";

const FIGURES = {
  toy_rules_written: {
    written: "toy rules written",
    metrics: [{ kind: "counter", name: "kubeproxy_toy_rules_written_total", help: "Toy rules written" }],
  },
} as const satisfies FigureDeclarations;

/** A figure of a sync in toy mode. */
export type ToyFigure = keyof typeof FIGURES;

const DESCRIPTION: ModeDescription = {
  name: "toy",
  kinds: ["Service"],
  tools: [{
    tool: "toyctl",
    companions: ["toyctl-save"],
    version: ["--version"],
    package: "toy-tools",
    tested: [],
    reading: { words: ["list"] },
  }],
  modules: ["toy_nat"],
  figures: FIGURES,
  metrics: { splitsDurations: false, countsPackets: false, countsTraffic: false },
  settings: {
    section: "iptables",
    masqueradeSection: "iptables",
    defaultNodePortAddresses: ["primary"],
    servesLocalhostNodePorts: false,
    isDeprecated: true,
  },
  relay: "none",
  traces: {
    calls: [{ tool: "toyctl-save", args: [] }],
    line: /^toy (\S+)$/,
    text: (names) => `toy rules (mode toy, ${names.length} of them)`,
  },
  balance: { algorithms: ["random"], byDefault: "random" },
  traffic: {
    by: "rules",
    unusedPort: "rejected",
    refusesOwnTraffic: false,
    checksSourcesFirst: false,
    refusesEverywhere: false,
    masqueradesByAddress: false,
  },
};

/** The registry entry of toy mode. */
export const TOY_MODE: Mode = {
  description: DESCRIPTION,
  load: async () => (await import("./backend.ts")).TOY_CODE,
};
