import type { CountDeclarations, ModeDescription } from "../../../backends/contract/mod.ts";
import type { Mode } from "../../../backends/mod.ts";

const COUNTS = {
  toy_rules_written: {
    written: "toy rules written",
    metrics: [{ kind: "counter", name: "kubeproxy_toy_rules_written_total", help: "Toy rules written" }],
  },
} as const satisfies CountDeclarations;

/** A count of a sync in toy mode. */
export type ToyCount = keyof typeof COUNTS;

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
  counts: COUNTS,
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
