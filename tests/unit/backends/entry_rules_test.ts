/** The check between comparisons that the rules that packets enter first are in the kernel. */
import assert from "node:assert/strict";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { createFakeNftHost } from "../../fakes/nft_runner.ts";
import { backendUnderTest as iptablesUnderTest, createHost, tamper } from "./iptables/host.ts";
import { backendUnderTest as nftablesUnderTest } from "./nftables/host.ts";

const WEB = fakeServicePort("default/web:http");

for (const flavour of ["nf_tables", "legacy"] as const) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`a flush of any table of ${flavour} is noticed, in ${family}`, async () => {
      const host = createHost({ flavour });
      const { backend, snapshot } = await iptablesUnderTest(host, family);
      await snapshot([WEB]);
      assert.equal(await backend.hasEntryRules!(), true);
      const tool = family === "IPv4" ? "iptables" : "ip6tables";
      for (const table of family === "IPv4" ? ["mangle", "filter", "nat"] : ["filter", "nat"]) {
        assert.equal((await host.runner.run({ tool, args: ["-t", table, "-F"] })).exitCode, 0);
        assert.equal(await backend.hasEntryRules!(), false);
        await backend.resync();
        assert.equal(await backend.hasEntryRules!(), true);
      }
      await tamper(host, "*nat", "-A PREROUTING -j RETURN", "COMMIT");
      assert.equal(await backend.hasEntryRules!(), true);
    });
  }
}

Deno.test("a flush of the ruleset of nft is noticed, and a foreign table is not counted", async () => {
  const host = createFakeNftHost();
  const { backend, snapshot } = nftablesUnderTest(host);
  await backend.setup();
  await snapshot([WEB]);
  assert.equal(await backend.hasEntryRules!(), true);
  const [ours] = [...host.tables];
  host.tables.clear();
  assert.equal(await backend.hasEntryRules!(), false);
  host.tables.set("ip other", ours![1]);
  assert.equal(await backend.hasEntryRules!(), false);
  await backend.resync("fault");
  assert.equal(await backend.hasEntryRules!(), true);
  const { listings } = host;
  assert.equal(await backend.hasEntryRules!(), true);
  assert.equal(host.listings, listings, "it does not list elements");
});

Deno.test("an earlier copy of the table is noticed and repaired, each time that another program restores it", async () => {
  const host = createFakeNftHost();
  const { backend, snapshot } = nftablesUnderTest(host);
  await backend.setup();
  await snapshot([WEB]);
  assert.equal(await backend.hasEntryRules!(), true);
  const { sets, chains } = host.tables.get("ip sluice")!;
  const copy = {
    sets: new Map([...sets].map(([name, set]) => [name, { ...set, elements: new Map() }])),
    // Without handles, which the fake prints as 0.
    chains: new Map([...chains].map(([name, chain]) => [name, { ...chain }])),
    counters: new Map<string, number>(),
  };
  for (const time of [1, 2, 3]) {
    host.tables.set("ip sluice", copy);
    assert.equal(await backend.hasEntryRules!(), false, `restored ${time} times`);
    await backend.resync("fault");
    assert.equal(host.tables.get("ip sluice")!.sets.get("cluster-ips")!.elements.size, 1);
    assert.equal(await backend.hasEntryRules!(), true);
  }
});
