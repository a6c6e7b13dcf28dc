/** Failover on a family with a planner, whose worker a test controls. */
import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/registry.ts";
import type { Attempts } from "../../../../core/model/mod.ts";
import type { ClusterObject } from "../../../../core/objects/mod.ts";
import type { Node, NodeApi, NodeFamily, RunningFeature } from "../../../../features/contract.ts";
import { startDetection, usesOf } from "../../../../features/failover/detection.ts";
import { start } from "../../../../features/failover/start.ts";
import { createRegistry } from "../../../../platform/metrics/mod.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
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

Deno.test("endpoints of an earlier run are gone if no slice has them, whether they are known before the first plan or after it", async () => {
  const earlier = [
    slice("10.1.0.1", "10.1.0.9"),
    endpointSlice("default/web-b", [endpoint("fd00::9")], { family: "IPv6" }),
  ];
  for (const isFirst of [true, false]) {
    let planned: RunningFeature["planned"] = undefined;
    const flags = ["--proxy-mode", "nftables"];
    const { clock, link, apply, family, tracking, configuration } = serveIPv4(flags, (changes) => planned?.(changes));
    const running = await start(featureNode({ clock, tracking, families: [family], api: API }), configuration);
    planned = running.planned;
    link.report();
    if (isFirst) running.earlier?.(earlier);
    await apply(web, slice("10.1.0.1"));
    link.report();
    if (!isFirst) running.earlier?.(earlier);
    await clock.advanceSettled(500);
    assert.deepEqual(link.sent.at(-1)!.gone, ["10.1.0.9:8080"]);
    link.report();
    await apply(slice("10.1.0.1", "10.1.0.2"));
    assert.ok(!("gone" in link.sent.at(-1)!));
  }
});

Deno.test("only what is on runs: without resets, no earlier state is asked for; without detection, nothing is counted", async () => {
  const node = featureNode({ tracking: serveIPv4().tracking, api: API });
  const runningWith = (...flags: string[]) =>
    start(node, serveIPv4(["--proxy-mode", "nftables", ...flags]).configuration);
  const detecting = await runningWith("--endpoint-failure-detection", "--reset-gone-connections=false");
  assert.deepEqual([detecting.earlier, typeof detecting.addMetrics], [undefined, "function"]);
  const resetting = await runningWith();
  assert.deepEqual([typeof resetting.earlier, resetting.addMetrics], ["function", undefined]);
});

Deno.test("nothing is reset without the API server, nor in a mode whose connections conntrack does not translate", async () => {
  const node = featureNode({ tracking: serveIPv4().tracking, api: API });
  const { configuration } = serveIPv4(["--proxy-mode", "nftables", "--reset-gone-connections"]);
  assert.notEqual((await start(node, configuration)).earlier, undefined);
  assert.equal((await start({ ...node, api: undefined }, configuration)).earlier, undefined);
  assert.equal((await start({ ...node, mode: describeMode("ipvs") }, configuration)).earlier, undefined);
});
