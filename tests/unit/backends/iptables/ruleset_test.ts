import assert from "node:assert/strict";
import { createRuleset, type Ruleset } from "../../../../backends/iptables/ruleset.ts";
import { TABLES } from "../../../../backends/xtables/chains.ts";
import { IPTABLES_LAYOUTS } from "../../../../backends/xtables/mod.ts";
import { servicePortKey } from "../../../../core/model/mod.ts";
import { fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";

const LOCAL = "10.1.0.1:8080";
const WEB = fakeServicePort("default/web", { clusterEndpoints: [LOCAL], endpointsOnThisNode: [LOCAL] });
const KEY = servicePortKey(WEB.name, WEB.protocol);
const DELTA = { revision: 1, base: undefined, settings: fakeSettings(), set: [WEB], deleted: [] };

function rulesetOfWeb(): Ruleset {
  const layout = IPTABLES_LAYOUTS.IPv4, hairpin = "per-endpoint";
  const ruleset = createRuleset({ layout, family: "IPv4", hairpin, randomFully: true, tcpLiberal: () => false });
  ruleset.apply(DELTA);
  return ruleset;
}

function rulesOf(ruleset: Ruleset): readonly string[] {
  return TABLES.flatMap((table) =>
    [...ruleset.chains(table)].flatMap((chain) => ruleset.render(table, chain)!.rules.map((rule) => `${chain} ${rule}`))
  ).sort();
}

const there = rulesOf(rulesetOfWeb());

for (const exclusions of [[false], [true, false], [true, true, false], [true, false, false]]) {
  Deno.test(`a service port that was excluded and included (${exclusions.join(", ")}) has its rules once`, () => {
    const ruleset = rulesetOfWeb();
    for (const excluded of exclusions) ruleset.exclude(KEY, excluded);
    assert.deepEqual(rulesOf(ruleset), there);
    ruleset.apply({ ...DELTA, base: 1, settings: undefined, set: [], deleted: [KEY] });
    assert.deepEqual(rulesOf(ruleset).filter((rule) => rule.includes("10.1.0.1")), []);
  });
}

Deno.test("a service port that is deleted, even twice, and set again has its rules once", () => {
  const ruleset = rulesetOfWeb(), deleted = { ...DELTA, base: 1, settings: undefined, set: [], deleted: [KEY] };
  for (let time = 0; time < 2; time++) {
    for (let repeat = 0; repeat < 2; repeat++) {
      ruleset.apply(deleted);
      assert.deepEqual([...ruleset.servicePorts()], []);
      assert.deepEqual(rulesOf(ruleset).filter((rule) => rule.includes("10.1.0.1")), []);
    }
    ruleset.apply({ ...deleted, set: [WEB], deleted: [] });
    assert.deepEqual(rulesOf(ruleset), there);
  }
});
