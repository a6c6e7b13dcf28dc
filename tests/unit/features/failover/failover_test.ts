/** Failover on a family with a planner, whose worker a test controls. */
import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/registry.ts";
import type { Attempts } from "../../../../core/model/mod.ts";
import type { ClusterObject } from "../../../../core/objects/mod.ts";
import type { Node, NodeApi, NodeFamily, RunningFeature } from "../../../../features/contract.ts";
import { startDetection, usesOf } from "../../../../features/failover/detection.ts";
import { start } from "../../../../features/failover/start.ts";
import { createRegistry } from "../../../../platform/metrics/mod.ts";
import { endpoint, endpointSlice, service, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { serveIPv4 } from "../../../fakes/served_family.ts";

const API = {} as NodeApi;
const web = service("default/web");

function slice(...addresses: readonly string[]): ClusterObject {
  return endpointSlice("default/web-a", addresses.map((address) => endpoint(address)));
}

Deno.test("an endpoint's uses are the service ports that use it or leave it out, and their other endpoints", async () => {
  const { apply, family } = serveIPv4();
  await apply(web, slice("10.1.0.1", "10.1.0.2", "10.1.0.3"));
  const uses = { servicePorts: ["default/web:http"], siblings: ["10.1.0.2:8080", "10.1.0.3:8080"] };
  const asked = new Set(["10.1.0.1:8080", "10.9.9.9:8080"]);
  assert.deepEqual([...usesOf(family.ports(), asked)], [["10.1.0.1:8080", uses]]);
  family.leaveOut(() => asked);
  family.planAgain(new Set(["default/web"]));
  assert.deepEqual([...usesOf(family.ports(), asked)], [["10.1.0.1:8080", uses]]);
});

Deno.test("an endpoint that does not answer is left out, with a problem and an Event of its Service, until it answers", async () => {
  let planned = () => {};
  const { apply, clock, family, link, tracking, configuration } = serveIPv4([], () => planned());
  const counts = new Map<string, Attempts>(), problems: string[][] = [], events: string[] = [];
  let isSilent = false;
  const answers = (endpoint: string) => !isSilent || endpoint !== "10.1.0.1:8080";
  const families: readonly NodeFamily[] = [{ ...family, call: () => Promise.resolve(counts as never) }];
  const node: Node = featureNode({
    ...{ clock, tracking, families },
    reportProblems: (scope, list) => problems.push([scope, ...list.map(({ code, subject }) => `${code} ${subject}`)]),
    recordServiceProblem: (service, { code }, action) => events.push(`${action} ${service} ${code}`),
  });
  const detection = startDetection(
    node,
    configuration.failover,
    ({ address }) => Promise.resolve(isSilent && address === "10.1.0.1" ? "silent" : "answered"),
  );
  planned = () => detection.planned(undefined as never);
  const registry = createRegistry();
  detection.addMetrics(registry);
  await apply(web, slice("10.1.0.1", "10.1.0.2"));
  link.report();
  const traffic = async () => {
    for (let round = 0; round < 10; round++) {
      for (const endpoint of ["10.1.0.1:8080", "10.1.0.2:8080"]) {
        const { made, answered } = counts.get(endpoint) ?? { made: 0, answered: 0 };
        counts.set(endpoint, { made: made + 5, answered: answered + (answers(endpoint) ? 5 : 0) });
      }
      await clock.advanceSettled(200);
    }
  };
  await traffic();
  assert.deepEqual(problems, []);
  isSilent = true;
  await traffic();
  const [port] = link.sent.at(-1)!.set;
  assert.deepEqual([port!.clusterEndpoints, port!.unreachableEndpoints], [["10.1.0.2:8080"], ["10.1.0.1:8080"]]);
  assert.deepEqual(problems, [["unreachable IPv4", "endpoint-unreachable 10.1.0.1:8080"]]);
  assert.deepEqual(events, ["Probe default/web endpoint-unreachable"]);
  assert.deepEqual((await registry.expose()).split("\n").filter((line) => line.startsWith("sluice_endpoint")).sort(), [
    'sluice_endpoint_ejections_total{ip_family="IPv4"} 1',
    'sluice_endpoints_unreachable{ip_family="IPv4"} 1',
  ]);
  link.report();
  isSilent = false;
  await clock.advanceSettled(10_000);
  assert.deepEqual(link.sent.at(-1)!.set[0]!.clusterEndpoints, ["10.1.0.1:8080", "10.1.0.2:8080"]);
  assert.deepEqual(problems.at(-1), ["unreachable IPv4"]);
  assert.equal(events.length, 1);
});

Deno.test("a dead endpoint is reported with every frontend of its service", async () => {
  let planned: RunningFeature["planned"] = undefined;
  const flags = ["--proxy-mode", "nftables", "--nodeport-addresses", "192.0.2.0/24"];
  const { clock, link, apply, family, tracking, configuration, ledger } = serveIPv4(
    flags,
    (changes) => planned?.(changes),
  );
  const requests: unknown[] = [];
  const call: NodeFamily["call"] = (_, request) => {
    requests.push(request);
    return Promise.resolve(undefined);
  };
  const families = [{ ...family, call, nodePortAddresses: () => ["192.0.2.10", "198.51.100.1"] }];
  const node = featureNode({ clock, tracking, families, ledgers: { IPv4: ledger, IPv6: ledger }, api: API });
  planned = (await start(node, configuration)).planned;
  const balanced = service("default/web", {
    ...{ type: "LoadBalancer", externalIPs: ["203.0.113.1"], loadBalancerIPs: ["203.0.113.2"] },
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }],
    own: { nodePortAddresses: "192.0.2.0/28" },
  });
  await apply(balanced, endpointSlice("default/web-a", [endpoint("10.1.0.1"), terminatingEndpoint("10.1.0.2")]));
  link.report();
  await apply(slice("10.1.0.1"));
  link.report();
  await clock.advanceSettled(1_000);
  const frontends = ["10.0.0.1:80", "203.0.113.1:80", "203.0.113.2:80", "192.0.2.10:30080"];
  assert.deepEqual(requests, [[{ namespace: "default", endpoint: "10.1.0.2:8080", frontends }]]);
});

Deno.test("only what is on runs; resets need the API server and a mode whose connections conntrack translates", async () => {
  const node = featureNode({ tracking: serveIPv4().tracking, families: [serveIPv4().family], api: API });
  const startWith = async (changes: Partial<Node>, ...flags: string[]) => {
    const { configuration } = serveIPv4(["--proxy-mode", "nftables", ...flags]);
    let watched = false;
    const endpoints = new Proxy(node.tracking.endpoints, {
      get: (...args) => ((watched = true), Reflect.get(...args)),
    });
    const running = await start({ ...node, tracking: { ...node.tracking, endpoints }, ...changes }, configuration);
    return { detects: running.addMetrics !== undefined, resets: watched };
  };
  const only = (resets: boolean) => ({ detects: false, resets });
  assert.deepEqual(await startWith({}), only(true));
  assert.deepEqual(await startWith({ api: undefined }), only(false));
  assert.deepEqual(await startWith({ mode: describeMode("ipvs") }), only(false));
  assert.deepEqual(await startWith({}, "--endpoint-failure-detection", "--reset-gone-connections=false"), {
    detects: true,
    resets: false,
  });
});
