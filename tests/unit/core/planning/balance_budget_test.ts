import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/registry.ts";
import type { ProxyMode } from "../../../../core/model/mod.ts";
import { KINDS, refOf, type Service } from "../../../../core/objects/cluster_object.ts";
import {
  createBalanceBudget,
  NAMESPACE_BUDGET,
  SERVICE_BUDGET,
  tableSize,
} from "../../../../core/planning/balance_budget.ts";
import { createFamilyPlanner } from "../../../../core/planning/family_planner.ts";
import { fakeBalance } from "../../../fakes/balance.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

/** A planner; each service has 300 endpoints, so that a table has 10,080 slots. */
function planned(mode: ProxyMode = "nftables") {
  const tracking = fakeTracking(), problems: string[] = [], events: string[] = [], seen: string[] = [];
  for (const kind of KINDS) tracking.synced(kind);
  const planner = createFamilyPlanner({
    family: "IPv4",
    nodeName: "here",
    tracking,
    balance: fakeBalance(describeMode(mode)),
    onProblems: (scope, [problem]) => problems.push(`${scope}: ${problem?.code} ${problem?.detail}`),
    onLimit: (key, problem) => events.push(`${key}: ${problem.detail}`),
  });
  const endpoints = Array.from({ length: 300 }, (_, i) => endpoint(`10.1.${i >> 8}.${i & 255}`));
  return {
    /** Sets services with so many ports. */
    set(ports: Readonly<Record<string, number>>, fields: Partial<Service> = {}) {
      for (const [key, count] of Object.entries(ports)) {
        const spec = Array.from({ length: count }, (_, i) => (
          { name: `p${i}`, protocol: "tcp", port: 80 + i, nodePort: 0 } as const
        ));
        if (!seen.includes(key)) seen.push(key);
        const clusterIPs = [`10.0.0.${1 + seen.indexOf(key)}`];
        tracking.set(service(key, { clusterIPs, ports: spec, own: { balance: "consistent-hash" }, ...fields }));
        tracking.set(endpointSlice(`${key}-1`, endpoints, { ports: spec }));
      }
      return [...planner.plan(tracking.take()).set.values()];
    },
    delete(key: string) {
      tracking.delete(refOf(service(key)));
      return [...planner.plan(tracking.take()).set.values()];
    },
    algorithm: (key: string) =>
      new Set(planner.portsOf(key).map(({ planned }) => planned?.balance?.algorithm ?? "random")),
    limitOf: planner.limitOf,
    takeEvents: () => events.splice(0),
    takeProblems: () => problems.splice(0),
  };
}

const random = new Set(["random"]), hashed = new Set(["consistent-hash"]);

Deno.test("a service whose tables exceed its budget is balanced at random, until they are smaller", () => {
  const { set, algorithm, limitOf, takeEvents, takeProblems } = planned();
  set({ "a/large": 3, "a/small": 1 });
  assert.deepEqual([algorithm("a/large"), algorithm("a/small")], [random, hashed]);
  const why = "its table would have 30243 elements in IPv4; a service may have 30000; balanced at random";
  assert.deepEqual(takeProblems(), [`balance of a/large (IPv4): balance-limited ${why}`]);
  assert.deepEqual([takeEvents(), limitOf("a/large"), limitOf("a/small")], [[`a/large: ${why}`], why, undefined]);
  assert.equal(set({ "a/large": 3 }).length, 0);
  set({ "a/large": 2 });
  assert.deepEqual([algorithm("a/large"), takeProblems()], [hashed, [
    "balance of a/large (IPv4): undefined undefined",
  ]]);
  assert.deepEqual([takeEvents(), limitOf("a/large")], [[], undefined]);
});

Deno.test("frontends and weights count, and modes without tables in the kernel have no budget", () => {
  const { set, algorithm } = planned();
  set({ "a/exposed": 1 }, { externalIPs: ["192.0.2.1", "192.0.2.2"] });
  assert.deepEqual(algorithm("a/exposed"), random);
  const weighted = planned("iptables");
  weighted.set({ "a/weighted": 200 }, { own: { weights: "zone=x: 2" } });
  assert.deepEqual(weighted.takeProblems(), []);
});

Deno.test("the oldest services of a namespace get its budget, and others when it is free again", () => {
  const { set, delete: remove, algorithm } = planned();
  const keys = Array.from({ length: 13 }, (_, i) => `a/s${i}`);
  // Twelve services of 20,162 elements fit.
  for (const [i, key] of keys.entries()) set({ [key]: 2 }, { createdSeconds: 2_000 - i });
  set({ "b/other": 2 });
  assert.deepEqual(algorithm("a/s0"), random);
  for (const key of [...keys.slice(1), "b/other"]) assert.deepEqual(algorithm(key), hashed, key);
  const changed = remove("a/s5");
  assert.deepEqual([algorithm("a/s0"), changed.map(({ name }) => name)], [hashed, ["a/s0:p0", "a/s0:p1"]]);
});

Deno.test("a service above its own budget takes nothing from its namespace, and of equal age, the first by name wins", () => {
  const { set, algorithm } = planned();
  // 11 of 20,162 elements, and one of 30,243: with a twelfth, no room is left.
  const small = Array.from({ length: 12 }, (_, i) => `a/s${String(i).padStart(2, "0")}`);
  set({ "a/large": 3 }, { createdSeconds: 1 });
  for (const key of small.toReversed()) set({ [key]: 2 }, { createdSeconds: 2 });
  for (const key of small) assert.deepEqual(algorithm(key), hashed, key);
  set({ "a/late": 2, "a/s": 2 }, { createdSeconds: 2 });
  assert.deepEqual([algorithm("a/late"), algorithm("a/s"), algorithm("a/s11")], [hashed, hashed, random]);
});

Deno.test("tables may use a budget up to its last element", () => {
  const table = fakeServicePort("default/web", {
    ...{ clusterEndpoints: ["10.1.0.1:80"], balance: { algorithm: "consistent-hash", hash: "flow" } },
  });
  const sized = (
    size: number,
  ) => [{ ...table, nodePortPrefixes: Array<string>(size - tableSize([table])).fill("192.0.2.0/24") }];
  const limits = (...sizes: readonly number[]) => {
    const budget = createBalanceBudget(), keys = sizes.map((_, i) => `a/s${i}`);
    for (const [i, key] of keys.entries()) budget.request(key, sized(sizes[i]!), i);
    budget.settle();
    return keys.map(budget.limitOf);
  };
  assert.deepEqual(limits(SERVICE_BUDGET), [undefined]);
  assert.deepEqual(limits(SERVICE_BUDGET + 1), ["service"]);
  const most = Array<number>(8).fill(SERVICE_BUDGET), rest = NAMESPACE_BUDGET - 8 * SERVICE_BUDGET;
  assert.deepEqual(limits(...most, rest).at(-1), undefined);
  assert.deepEqual(limits(...most, rest + 1).at(-1), "namespace");
});
