import assert from "node:assert/strict";
import { createTrafficReader } from "../../../../backends/iptables/traffic_reader.ts";
import type { IptablesTools } from "../../../../backends/xtables/mod.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";

const CHAIN = { table: "nat", chain: "KUBE-SVC-ABCDEFGHIJKLMNOP", rules: 1 } as const;

/** A reader of one rule that has matched five packets, or as many as `kernel` says; none of a rule that does not exist. */
function readingFive() {
  const listed: string[] = [], kernel: { packets: number | undefined } = { packets: 5 };
  const unused = () => Promise.reject(new Error("only list may be called"));
  const tools: IptablesTools = {
    ...{ keepsRules: false, restore: unused, save: unused, flavour: unused },
    async list(table, chain, onLine) {
      await Promise.resolve();
      listed.push(chain ?? table);
      if (table !== "nat" || kernel.packets === undefined) return;
      onLine(`-A ${CHAIN.chain} -p tcp -c ${kernel.packets} 300 -j DNAT --to-destination 10.1.0.1:80`);
    },
  };
  const ruleset = { servicePorts: () => [], chainOwner: () => "default/web|tcp" };
  const reader = createTrafficReader({
    ...{ ruleset, tools, clock: createFakeClock(), flavour: "nf_tables", tables: ["filter", "nat"] },
  });
  return { reader, listed, kernel, connections: async () => [...(await reader.read()).counts] };
}

Deno.test("the counters of a chain restart when it is written, and not if its restore fails", async () => {
  const { reader, connections } = readingFive();
  await reader.start();
  await reader.aroundRestore([CHAIN], () => Promise.resolve(false));
  assert.deepEqual(await connections(), []);
  await reader.aroundRestore([CHAIN], () => Promise.resolve(true));
  assert.deepEqual(await connections(), [5, 0, 0]);
});

Deno.test("counters that another program has reset or removed count from 0", async () => {
  const { reader, kernel, connections } = readingFive();
  await reader.start();
  kernel.packets = 7;
  assert.deepEqual(await connections(), [2, 0, 0]);
  kernel.packets = 3;
  assert.deepEqual(await connections(), [3, 0, 0], "reset");
  for (const [gone, what] of [[undefined, "removed and created again"], [0, "reset before it matched"]] as const) {
    kernel.packets = gone;
    assert.deepEqual(await connections(), []);
    kernel.packets = 4;
    assert.deepEqual(await connections(), [4, 0, 0], what);
  }
  assert.deepEqual(await connections(), []);
});

for (const [name, one, other] of [["the first", 0, 1], ["the second", 1, 0]] as const) {
  Deno.test(`a reading waits for all restores under way, also if ${name} ends first, and further restores wait for it`, async () => {
    const { reader, listed } = readingFive();
    await reader.start();
    const steps = [1, 2, 3].map(() => Promise.withResolvers<boolean>());
    const started: number[] = [];
    const restore = (number: number) =>
      reader.aroundRestore([], () => {
        started.push(number);
        return steps[number]!.promise;
      });
    const restores = [restore(0), restore(1)];
    await settled();
    assert.deepEqual(started, [0, 1]);
    listed.length = 0;
    const reading = reader.read(), third = restore(2);
    steps[one]!.resolve(true);
    await restores[one];
    await settled();
    assert.deepEqual([listed, started], [[], [0, 1]]);
    steps[other]!.resolve(true);
    await Promise.all([restores[other], reading]);
    assert.deepEqual(listed, ["filter", "nat"]);
    await settled();
    assert.deepEqual(started, [0, 1, 2]);
    steps[2]!.resolve(true);
    await third;
  });
}
