import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/registry.ts";
import { kernelSize, type ProxyMode } from "../../../../core/model/mod.ts";
import type { OwnTexts } from "../../../../core/objects/own_annotations.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { type BalanceOptions, balanceRequest } from "../../../../core/planning/balance.ts";
import { createFamilyPlanner } from "../../../../core/planning/family_planner.ts";
import { planService } from "../../../../core/planning/service_port.ts";
import { fakeBalance } from "../../../fakes/balance.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

function optionsOf(mode: ProxyMode, byDefault: Partial<BalanceOptions["byDefault"]> = {}): BalanceOptions {
  return fakeBalance(describeMode(mode), byDefault);
}

const ENDPOINTS = [
  endpoint("10.1.0.1", { zone: "a", nodeName: "n1" }),
  endpoint("10.1.0.2", { zone: "b", nodeName: "n2" }),
  endpoint("10.1.0.3", { zone: "b", nodeName: "here" }),
];

/** The decision for a service with these annotations and its endpoints. */
function decided(
  own: OwnTexts | undefined,
  options = optionsOf("nftables"),
  fields: Partial<Service> = {},
  factors?: ReadonlyMap<string, number>,
) {
  const [port] = planService({
    service: service("default/web", { own, ...fields }),
    family: "IPv4",
    node: { name: "here", zone: "b" },
    nodeIP: "192.0.2.1",
    balance: options,
    endpointsOf: () => ENDPOINTS.map((each) => ({ target: `${each.address}:80`, endpoint: each })),
    weighing: { factors: (key) => key === "default/web:http|tcp" ? factors : undefined },
  });
  return port!.balance;
}

Deno.test("without an annotation, and with one for the default, a service port has no decision about balancing", () => {
  assert.equal(decided(undefined), undefined);
  assert.equal(decided({ balance: "random" }), undefined);
  assert.equal(decided({ weights: "*: 7" }), undefined);
  assert.equal(decided({ balance: "rr" }, optionsOf("ipvs")), undefined);
});

Deno.test("an annotation chooses the algorithm, and for consistent-hash what is hashed", () => {
  assert.deepEqual(decided({ balance: "round-robin" }), { algorithm: "round-robin" });
  assert.deepEqual(decided({ balance: "consistent-hash" }), { algorithm: "consistent-hash", hash: "flow" });
  assert.deepEqual(decided({ balance: " consistent-hash ", affinityHash: "client" }), {
    algorithm: "consistent-hash",
    hash: "client",
  });
  assert.deepEqual(decided({ balance: "least-connections" }, optionsOf("ipvs")), { algorithm: "least-connections" });
  assert.deepEqual(decided({ balance: "sh" }, optionsOf("ipvs")), { algorithm: "sh" });
});

Deno.test("the configuration decides for services without an annotation", () => {
  const options = optionsOf("nftables", { algorithm: "consistent-hash", hash: "client" });
  assert.deepEqual(decided(undefined, options), { algorithm: "consistent-hash", hash: "client" });
  assert.deepEqual(decided({ affinityHash: "flow" }, options), { algorithm: "consistent-hash", hash: "flow" });
  assert.equal(decided({ balance: "random" }, options), undefined);
  // One object, however many services there are.
  assert.equal(decided(undefined, options), decided(undefined, options));
});

Deno.test("weights follow the first term that matches an endpoint, and count for each policy's own list", () => {
  assert.deepEqual(decided({ weights: "zone=a: 3, node=here: 2" }), {
    algorithm: "random",
    clusterWeights: [3, 1, 2],
  });
  assert.deepEqual(decided({ weights: "node=n2:0\n zone = b : 5\n*:2", balance: "consistent-hash" }), {
    ...{ algorithm: "consistent-hash", hash: "flow" },
    clusterWeights: [2, 0, 5],
  });
  assert.deepEqual(decided({ weights: "zone=a: 2" }, optionsOf("ipvs")), {
    algorithm: "rr",
    clusterWeights: [2, 1, 1],
  });
  const local = { type: "NodePort", externalPolicyLocal: true, internalPolicyLocal: true } as const;
  assert.deepEqual(decided({ weights: "zone=a: 2" }, optionsOf("iptables"), local), undefined);
});

Deno.test("weights that would leave no endpoint are ignored", () => {
  assert.equal(decided({ weights: "*: 0" }), undefined);
});

Deno.test("more endpoints than consistent-hash has tables for are balanced by the default", () => {
  const many = Array.from({ length: 1025 }, (_, i) => `10.2.${i >> 8}.${i & 255}:80`);
  const [port] = planService({
    service: service("default/web", { own: { balance: "consistent-hash" } }),
    family: "IPv4",
    node: { name: "here", zone: "" },
    nodeIP: "192.0.2.1",
    balance: optionsOf("nftables"),
    endpointsOf: () => many.map((target) => ({ target, endpoint: endpoint(target.split(":")[0]!) })),
  });
  assert.equal(port!.balance, undefined);
});

Deno.test("with counted connections, each endpoint has eight slots for its weight once loads differ, and more or fewer by its load", () => {
  const least = (own: OwnTexts, fields: Partial<Service>, factors?: ReadonlyMap<string, number>) =>
    decided({ ...own, balance: "least-connections" }, undefined, fields, factors);
  const algorithm = "least-connections";
  assert.deepEqual(least({}, {}), { algorithm, clusterSlots: [1, 1, 1] });
  assert.deepEqual(least({ weights: "zone=a: 2" }, {}), {
    ...{ algorithm, clusterWeights: [2, 1, 1], clusterSlots: [2, 1, 1] },
  });
  const slow = new Map([["10.1.0.1:80", 1 / 8], ["10.1.0.2:80", 1], ["10.9.9.9:80", 4]]);
  assert.deepEqual(least({}, {}, slow), { algorithm, clusterSlots: [2, 11, 11] });
  // An endpoint without weight gets none.
  assert.deepEqual(least({ weights: "zone=a: 2, node=here: 0" }, {}, slow), {
    ...{ algorithm, clusterWeights: [2, 1, 0], clusterSlots: [5, 19, 0] },
  });
  const local = { internalPolicyLocal: true } as const;
  assert.deepEqual(least({}, local), { algorithm, localSlots: [1] });
});

Deno.test("equal loads leave the size of a service, which counts towards the limits, as it is", () => {
  const sizeWith = (clusterSlots: readonly number[]) =>
    kernelSize(fakeServicePort("default/web", {
      clusterEndpoints: ["10.1.0.1:80", "10.1.0.2:80", "10.9.9.9:80"],
      balance: { algorithm: "least-connections", clusterSlots },
    }));
  assert.equal(sizeWith([1, 1, 1]), sizeWith([2, 11, 11]));
});

Deno.test("connections are counted for TCP and up to 250 endpoints; others are balanced by the default", () => {
  const planned = (count: number, protocol: "tcp" | "udp" = "tcp") => {
    const many = Array.from({ length: count }, (_, i) => `10.2.${i >> 8}.${i & 255}:80`);
    const [port] = planService({
      service: service("default/web", {
        own: { balance: "least-connections" },
        ports: [{ name: "http", protocol, port: 80, nodePort: 0 }],
      }),
      family: "IPv4",
      node: { name: "here", zone: "" },
      nodeIP: "192.0.2.1",
      balance: optionsOf("nftables"),
      endpointsOf: () => many.map((target) => ({ target, endpoint: endpoint(target.split(":")[0]!) })),
    });
    return port!.balance;
  };
  assert.deepEqual(planned(250)?.clusterSlots, new Array(250).fill(1));
  assert.equal(planned(251), undefined);
  assert.equal(planned(3, "udp"), undefined);
});

const problems: [ProxyMode, OwnTexts, string][] = [
  [
    "nftables",
    { balance: "consistent-hahs" },
    'sluice.dev/balance is "consistent-hahs", not random, round-robin, consistent-hash or least-connections; balanced at random',
  ],
  ["iptables", { balance: "fastest" }, 'sluice.dev/balance is "fastest", not random; balanced at random'],
  [
    "iptables",
    { balance: "consistent-hash" },
    "sluice.dev/balance: iptables mode has no consistent-hash; balanced at random",
  ],
  [
    "iptables",
    { balance: "least-connections" },
    "sluice.dev/balance: iptables mode has no least-connections; balanced at random",
  ],
  ["ipvs", { balance: "random" }, "sluice.dev/balance: ipvs mode has no random; balanced by rr"],
  [
    "nftables",
    { balance: "consistent-hash", affinityHash: "port" },
    'sluice.dev/affinity-hash is "port", not flow or client; using flow',
  ],
  ["nftables", { affinityHash: "client" }, "sluice.dev/affinity-hash has no effect without consistent-hash"],
  [
    "nftables",
    { weights: "zone=a: 1, zone b: 2" },
    'sluice.dev/weights: "zone b: 2" is not zone=NAME, node=NAME, node-label/KEY=VALUE, pod-label/KEY=VALUE or *, followed by : WEIGHT; all endpoints have the same weight',
  ],
  [
    "nftables",
    { weights: "zone=a: 1001" },
    'sluice.dev/weights: "zone=a: 1001" has a weight above 1000; all endpoints have the same weight',
  ],
  ["nftables", { weights: " , " }, "sluice.dev/weights: it has no term; all endpoints have the same weight"],
];

problems.push([
  "nftables",
  { weights: " ".repeat(4097) },
  "sluice.dev/weights is longer than 4096 characters",
], [
  "nftables",
  { weights: "pod-label/version=v2: 3" },
  'sluice.dev/weights: "pod-label/version=v2: 3" needs the label in the setting balance.podLabels; ' +
  "all endpoints have the same weight",
]);

for (const [mode, own, expected] of problems) {
  Deno.test(`${mode}, ${JSON.stringify(own)}: the problem names the annotation`, () => {
    const { problems } = balanceRequest(service("default/web", { own }), optionsOf(mode));
    assert.deepEqual(problems, [`annotation ${expected}`]);
  });
}

Deno.test("a term with a label says so if the source has no labels, whatever the settings", () => {
  const options = { ...optionsOf("nftables"), labelKeys: { nodes: [], pods: [], areUnavailable: true } as const };
  const own = { weights: "node-label/disk=old: 0" };
  assert.deepEqual(balanceRequest(service("default/web", { own }), options).problems, [
    'annotation sluice.dev/weights: "node-label/disk=old: 0": only the API server has labels, not this node\'s source; ' +
    "all endpoints have the same weight",
  ]);
});

Deno.test("weights follow the labels of nodes and pods, and change with them", () => {
  const tracking = fakeTracking();
  const balance = fakeBalance(describeMode("nftables"), {}, { nodes: ["example.com/disk"], pods: ["version"] });
  const planner = createFamilyPlanner({ family: "IPv4", nodeName: "here", tracking, balance, onProblems: () => {} });
  const weights = "node-label/example.com/disk=ssd: 5, pod-label/version=v2: 2";
  tracking.set(service("default/web", { own: { weights } }));
  tracking.set(service("default/plain", { clusterIPs: ["10.0.0.2"] }));
  tracking.set(endpointSlice("default/web-1", [
    endpoint("10.1.0.1", { nodeName: "n1", podName: "a" }),
    endpoint("10.1.0.2", { nodeName: "n2", podName: "b" }),
    endpoint("10.1.0.3", { nodeName: "n2", podName: "c" }),
  ]));
  const planned = () =>
    Array.from(planner.plan(tracking.take()).set.values(), ({ name, balance }) => [name, balance?.clusterWeights]);
  assert.deepEqual(planned(), [["default/web:http", undefined], ["default/plain:http", undefined]]);
  tracking.set({ kind: "NodeLabels", name: "n1", labels: { "example.com/disk": "ssd" } });
  tracking.set({ kind: "PodLabels", namespace: "default", name: "b", labels: { version: "v2" } });
  tracking.set({ kind: "PodLabels", namespace: "other", name: "c", labels: { version: "v2" } });
  assert.deepEqual(planned(), [["default/web:http", [5, 2, 1]]]);
  tracking.set({ kind: "PodLabels", namespace: "default", name: "b", labels: { version: "v1" } });
  assert.deepEqual(planned(), [["default/web:http", [5, 1, 1]]]);
  tracking.delete({ kind: "NodeLabels", namespace: "", name: "n1" });
  assert.deepEqual(planned(), [["default/web:http", undefined]]);
});
