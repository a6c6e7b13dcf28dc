/** The check between comparisons that the rules that packets enter first are in the kernel. */
import assert from "node:assert/strict";
import type { Backend } from "../../../backends/contract/mod.ts";
import type { FakeClock } from "../../fakes/clock.ts";
import type { Runner } from "../../../backends/tools/mod.ts";
import { createIptablesBackend } from "../../../backends/iptables/backend.ts";
import { IPTABLES_LAYOUTS } from "../../../backends/xtables/mod.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { createFakeNftHost } from "../../fakes/nft_runner.ts";
import { backendUnderTest as iptablesUnderTest, createHost, tamper } from "./iptables/host.ts";
import { backendUnderTest as nftablesUnderTest } from "./nftables/host.ts";

/** Returns a check, which waits for a listing that nft may still print. */
const checkOf = ({ backend, clock }: { readonly backend: Backend; readonly clock: FakeClock }) => async () => {
  const isThere = backend.hasEntryRules!();
  for (let i = 0; i < 4; i++) await clock.advanceSettled(50);
  return await isThere;
};

const WEB = fakeServicePort("default/web:http");

for (const flavour of ["nf_tables", "legacy"] as const) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`a flush of any table of ${flavour} is noticed, in ${family}`, async () => {
      const host = createHost({ flavour });
      const under = await iptablesUnderTest(host, family), { backend, snapshot } = under, look = checkOf(under);
      await snapshot([WEB]);
      assert.equal(await look(), true);
      const tool = family === "IPv4" ? "iptables" : "ip6tables";
      for (const table of family === "IPv4" ? ["mangle", "filter", "nat"] : ["filter", "nat"]) {
        assert.equal((await host.runner.run({ tool, args: ["-t", table, "-F"] })).exitCode, 0);
        assert.equal(await look(), false);
        await backend.resync();
        assert.equal(await look(), true);
      }
      await tamper(host, "*nat", "-A PREROUTING -j RETURN", "COMMIT");
      assert.equal(await look(), true);
    });
  }
}

for (const flavour of ["nf_tables", "legacy"] as const) {
  Deno.test(`while the ruleset's generation is the same, the rules of ${flavour} are ${flavour === "legacy" ? "" : "not "}looked for`, async () => {
    const host = createHost({ flavour });
    let generation = 1;
    const under = await iptablesUnderTest(
      host,
      "IPv4",
      (options) => createIptablesBackend({ ...options, generation: () => generation }),
    );
    const look = checkOf(under);
    await under.snapshot([WEB]);
    assert.equal(await look(), true);
    await host.runner.run({ tool: "iptables", args: ["-t", "nat", "-F"] });
    assert.equal(await look(), flavour === "nf_tables");
    generation++;
    assert.equal(await look(), false);
  });
}

Deno.test("while the ruleset's generation is the same, nft is not asked for chains or tables", async () => {
  const host = createFakeNftHost();
  let generation = 1;
  const under = nftablesUnderTest(host, "IPv4", () => generation), { backend, snapshot } = under, look = checkOf(under);
  await backend.setup();
  await snapshot([WEB]);
  assert.equal(await look(), true);
  const drift = async () => {
    await under.clock.advanceSettled(3_600_000);
    return (await backend.resync()).counts.drift_repaired;
  };
  assert.deepEqual([await drift(), await drift()], [0, 0]);
  host.tables.clear();
  assert.deepEqual([await look(), await drift()], [true, 0]);
  generation++;
  assert.equal(await look(), false);
  assert.ok((await drift())! > 0);
  assert.equal(await look(), true);
});

Deno.test("a running nft that lists the jumps spares the check its tools; without them, iptables is asked", async () => {
  const host = createHost(), listed: string[] = [];
  let hasJumps = true;
  const converse: Runner["converse"] = ({ onLine }) => ({
    ask(text) {
      const [, ip, table, chain] = /^list chain (\S+) (\S+) (\S+)/.exec(text) ?? [];
      if (chain === undefined) return Promise.resolve("Error: syntax error\n");
      listed.push(`${ip} ${table} ${chain}`);
      const jumps = IPTABLES_LAYOUTS.IPv4.jumps.filter((jump) =>
        hasJumps && jump.table === table && jump.from === chain
      )
        .map(({ rule }) => `\t\t counter packets 1 bytes 60 ${rule.replace(/.*-j/, "jump")}`);
      for (const line of [`table ${ip} ${table} {`, `\tchain ${chain} {`, ...jumps, "\t}", "}"]) onLine?.(line);
      return Promise.resolve("Error: syntax error\n");
    },
    isOpen: () => true,
    close() {},
  });
  const runner = { ...host.runner, converse };
  const under = await iptablesUnderTest({ ...host, runner }, "IPv4"), { snapshot } = under, look = checkOf(under);
  await snapshot([WEB]);
  const before = host.runner.calls.length;
  assert.equal(await look(), true);
  assert.deepEqual(listed, ["ip mangle PREROUTING", "ip filter INPUT", "ip nat OUTPUT"]);
  assert.equal(host.runner.calls.length, before);
  hasJumps = false;
  assert.equal(await look(), true, "iptables knows better");
  assert.equal(host.runner.calls.length, before + 3);
});

Deno.test("a flush of the ruleset of nft is noticed, and a foreign table is not counted", async () => {
  const host = createFakeNftHost();
  const under = nftablesUnderTest(host), { backend, snapshot } = under, look = checkOf(under);
  await backend.setup();
  await snapshot([WEB]);
  assert.equal(await look(), true);
  const [ours] = [...host.tables];
  host.tables.clear();
  assert.equal(await look(), false);
  host.tables.set("ip other", ours![1]);
  assert.equal(await look(), false);
  await backend.resync("fault");
  assert.equal(await look(), true);
  const { listings } = host;
  assert.equal(await look(), true);
  assert.equal(host.listings, listings, "it does not list elements");
});

Deno.test("an earlier copy of the table is noticed and repaired, each time that another program restores it", async () => {
  const host = createFakeNftHost();
  const under = nftablesUnderTest(host), { backend, snapshot } = under, look = checkOf(under);
  await backend.setup();
  await snapshot([WEB]);
  assert.equal(await look(), true);
  const { sets, chains } = host.tables.get("ip sluice")!;
  const copy = {
    sets: new Map([...sets].map(([name, set]) => [name, { ...set, elements: new Map() }])),
    // Without handles, which the fake prints as 0.
    chains: new Map([...chains].map(([name, chain]) => [name, { ...chain }])),
    counters: new Map<string, number>(),
  };
  for (const time of [1, 2, 3]) {
    host.tables.set("ip sluice", copy);
    assert.equal(await look(), false, `restored ${time} times`);
    await backend.resync("fault");
    assert.equal(host.tables.get("ip sluice")!.sets.get("cluster-ips")!.elements.size, 1);
    assert.equal(await look(), true);
  }
});
