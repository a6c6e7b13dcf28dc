import assert from "node:assert/strict";
import fc from "fast-check";
import { IPTABLES_LAYOUTS } from "../../backends/xtables/mod.ts";
import { TABLES } from "../../backends/xtables/chains.ts";
import { createRuleset, type Ruleset } from "../../backends/iptables/ruleset.ts";
import { type ServicePort, type ServicePortKey, servicePortKey } from "../../core/model/mod.ts";
import { ports, settings } from "./iptables_generators.ts";
import { runs } from "./runs.ts";

const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        does: fc.constant("set" as const),
        ports: fc.array(ports, { minLength: 1, maxLength: 30 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ does: fc.constant("delete" as const), indexes: fc.array(fc.nat(90), { maxLength: 40 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        does: fc.constant("restart" as const),
        settings,
        ports: fc.array(ports, { maxLength: 30 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ does: fc.constant("configure" as const), settings }) },
    {
      weight: 3,
      arbitrary: fc.record({
        does: fc.constant("exclude" as const),
        index: fc.nat(90),
        excluded: fc.boolean(),
        times: fc.integer({ min: 1, max: 2 }),
      }),
    },
  ),
  { maxLength: 14 },
);

function chainsOf(ruleset: Ruleset): Record<string, readonly string[]> {
  const chains: Record<string, readonly string[]> = {};
  for (const table of TABLES) {
    for (const chain of ruleset.chains(table)) chains[`${table} ${chain}`] = ruleset.render(table, chain)!.rules;
  }
  return chains;
}

for (const hairpin of ["compare", "per-endpoint"] as const) {
  Deno.test(`any history of changes ends in the chains of its final state, and reports those that changed (${hairpin})`, () => {
    fc.assert(
      fc.property(settings, steps, (first, history) => {
        const layout = IPTABLES_LAYOUTS.IPv4;
        const options = { layout, family: "IPv4", hairpin, randomFully: true, tcpLiberal: () => false } as const;
        const ruleset = createRuleset(options);
        const current = new Map<ServicePortKey, ServicePort>();
        let currentSettings = first;
        // A kernel that only receives the reported changes.
        const followed: Record<string, readonly string[]> = {};
        const follow = (touched: ReturnType<Ruleset["apply"]>) => {
          for (const table of TABLES) {
            for (const chain of touched[table] ?? []) {
              const rendered = ruleset.render(table, chain);
              if (rendered) followed[`${table} ${chain}`] = rendered.rules;
              else delete followed[`${table} ${chain}`];
            }
          }
        };
        const included = () => [...current.entries()].filter(([key]) => !excluded.has(key)).map(([, port]) => port);
        const excluded = new Set<ServicePortKey>();
        follow(ruleset.apply({ revision: 1, base: undefined, settings: first, set: [], deleted: [] }));
        for (const step of history) {
          const delta = { revision: 2, base: 1, settings: undefined, set: [], deleted: [] };
          if (step.does === "set") {
            for (const port of step.ports) {
              current.set(servicePortKey(port.name, port.protocol), port);
              excluded.delete(servicePortKey(port.name, port.protocol));
            }
            follow(ruleset.apply({ ...delta, set: step.ports }));
          } else if (step.does === "delete") {
            const deleted = step.indexes.map((index) => servicePortKey(`default/s${index}:p`, "tcp"));
            for (const key of deleted) {
              current.delete(key);
              excluded.delete(key);
            }
            follow(ruleset.apply({ ...delta, deleted }));
          } else if (step.does === "restart") {
            current.clear();
            excluded.clear();
            for (const port of step.ports) current.set(servicePortKey(port.name, port.protocol), port);
            currentSettings = step.settings;
            follow(ruleset.apply({ ...delta, base: undefined, settings: step.settings, set: [...current.values()] }));
          } else if (step.does === "configure") {
            currentSettings = step.settings;
            follow(ruleset.apply({ ...delta, settings: step.settings }));
          } else {
            const key = [...current.keys()][step.index % (current.size + 1)];
            if (key === undefined) continue;
            step.excluded ? excluded.add(key) : excluded.delete(key);
            for (let i = 0; i < step.times; i++) follow(ruleset.exclude(key, step.excluded));
          }
        }
        const atOnce = createRuleset(options);
        atOnce.apply({ revision: 1, base: undefined, settings: currentSettings, set: included(), deleted: [] });
        const expected = chainsOf(atOnce);
        assert.deepEqual(chainsOf(ruleset), expected);
        assert.deepEqual(followed, expected);
      }),
      runs(30),
    );
  });
}
