/** Source ranges as elements: of a frontend, or of a list that several share. */
import assert from "node:assert/strict";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { outcomeShares } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";

import { backendUnderTest } from "./host.ts";

/** A load balancer whose address is 192.168.5.`i`. */
const open = (i: number, ranges: readonly string[] | undefined, changes: Partial<ServicePort> = {}) =>
  fakeServicePort(`default/lb${i}:p`, {
    clusterIP: `10.96.0.${i}`,
    loadBalancerIPs: [`192.168.5.${i}`],
    external: "cluster",
    loadBalancerSources: ranges && fakeSources(ranges),
    ...changes,
  });

const DAY_MS = 86_400_000;
const NESTED = ["10.0.0.0/8", "10.64.0.0/16", "10.64.3.0/24", "172.16.0.0/12", "203.0.113.7/32", "128.0.0.0/1"];
const MANY = Array.from({ length: 300 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
const EVERY_LENGTH = Array.from({ length: 31 }, (_, i) => `${i < 7 ? 128 : 100}.0.0.0/${i + 1}`);

/** Ranges, with addresses that they admit and others. */
const CASES: readonly (readonly [string, readonly string[], readonly string[], readonly string[]])[] = [
  ["a few", NESTED, ["10.64.3.9", "10.200.0.1", "172.31.255.255", "203.0.113.7", "200.1.2.3"], ["11.0.0.1", "9.9.9.9"]],
  ["many", MANY, ["10.0.0.1", "10.1.43.255"], ["10.1.44.0", "11.0.0.1"]],
  ["every length", EVERY_LENGTH, ["128.0.0.1", "100.1.2.3", "129.0.0.1"], ["64.0.0.1", "102.0.0.1"]],
];

const outcome = ({ host }: Pick<ReturnType<typeof backendUnderTest>, "host">, address: string, to: string) =>
  Object.keys(outcomeShares(host, { from: { address, interface: "eth0" }, to, port: 80 })).join();

for (const [what, ranges, admitted, others] of CASES) {
  Deno.test(`a load balancer with source ranges (${what}) admits these sources and drops others, at each address`, async () => {
    for (const addresses of [["192.168.5.1"], Array.from({ length: 12 }, (_, i) => `192.168.5.${i + 1}`)]) {
      const under = backendUnderTest();
      await under.snapshot([open(1, ranges, { loadBalancerIPs: addresses }), open(99, undefined)]);
      for (const to of addresses) {
        for (const from of admitted) assert.match(outcome(under, from, to), /masqueraded$/, `${from} to ${to}`);
        for (const from of others) assert.equal(outcome(under, from, to), "dropped", `${from} to ${to}`);
      }
      assert.match(outcome(under, others[0]!, "192.168.5.99"), /masqueraded$/);
      under.host.transactions.length = 0;
      await under.backend.resync();
      assert.deepEqual(under.host.transactions, [], "it reads back as written");
    }
  });
}

Deno.test("a changed range is one element, and no set or chain belongs to a service port", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  await snapshot([open(1, ["10.0.0.0/8", "172.16.0.0/12"]), open(2, ["11.0.0.0/8", "172.32.0.0/12"])]);
  const names = () => [...table().sets.keys(), ...table().chains.keys()].filter((name) => name.startsWith("sources"));
  assert.deepEqual(names(), ["sources", "sources-8-12"]);
  host.transactions.length = 0;
  await change([open(2, ["12.0.0.0/8", "172.32.0.0/12"])]);
  assert.deepEqual(host.transactions, [[
    "delete element ip sluice sources { 192.168.5.2 . tcp . 80 . 11.0.0.0 . 0x00000008 }",
    "add element ip sluice sources { 192.168.5.2 . tcp . 80 . 12.0.0.0 . 0x00000008 }",
  ]]);
  await change([open(1, undefined), open(2, undefined)]);
  assert.deepEqual(names(), ["sources"]);
  assert.equal(table().sets.get("sources")!.elements.size, 0);
});

Deno.test("frontends with the same long list share it, which is repaired and deleted with the last of them", async () => {
  const { snapshot, change, backend, clock, table } = backendUnderTest();
  const lists = () =>
    [...table().sets].filter(([name]) => name.startsWith("sources-")).map(([, { elements }]) => elements);
  await snapshot([open(1, MANY), open(2, MANY.toReversed())]);
  assert.deepEqual(lists().map(({ size }) => size), [MANY.length]);
  assert.equal(new Set(table().sets.get("restricted")!.elements.values()).size, 1);

  const written = new Set(lists()[0]!.keys());
  lists()[0]!.delete("10.0.0.0 . 0x00000018");
  lists()[0]!.set("11.0.0.0 . 0x00000018", "");
  clock.advance(DAY_MS);
  await backend.resync();
  assert.deepEqual(new Set(lists()[0]!.keys()), written);

  await change([open(1, MANY.slice(1))]);
  assert.deepEqual(lists().map(({ size }) => size), [MANY.length, MANY.length - 1]);
  await change([open(2, MANY.slice(1))]);
  assert.deepEqual(lists().map(({ size }) => size), [MANY.length - 1]);
  await change([{ ...open(2, MANY.slice(1)), clusterEndpoints: ["10.1.9.9:80"] }]);
  await change([open(1, undefined)]);
  assert.deepEqual(lists().map(({ size }) => size), [MANY.length - 1]);
  await change([open(1, undefined), open(2, undefined)]);
  assert.deepEqual(lists(), []);
});

Deno.test("the sets and chains of an earlier layout are deleted", async () => {
  const { host } = backendUnderTest();
  const { snapshot, table } = backendUnderTest(host);
  await snapshot([open(1, ["10.0.0.0/8"])]);
  const old = table();
  old.sets.set("sources-ABCDEFGHIJKLMNOP", {
    kind: "set",
    lines: ["typeof ip saddr", "flags interval"],
    elements: new Map([["10.0.0.0/8", ""]]),
    counters: new Map(),
    clients: new Map(),
  });
  old.chains.set("sources-ABCDEFGHIJKLMNOP", {
    hook: undefined,
    rules: ["ip saddr @sources-ABCDEFGHIJKLMNOP return", "drop"],
  });
  const after = backendUnderTest(host);
  assert.deepEqual((await after.snapshot([open(1, ["10.0.0.0/8"])])).problems, []);
  assert.ok(![...table().sets.keys(), ...table().chains.keys()].some((name) => name.includes("ABCDEF")));
});
