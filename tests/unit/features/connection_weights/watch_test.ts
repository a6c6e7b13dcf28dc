/** Weights by connections on a family with a planner, whose worker a test controls. */
import assert from "node:assert/strict";
import type { EndpointConnections } from "../../../../core/model/mod.ts";
import type { OwnTexts } from "../../../../core/objects/own_annotations.ts";
import type { NodeFamily } from "../../../../features/contract.ts";
import type { ConnectionAnswer } from "../../../../features/connection_weights/calls.ts";
import { start } from "../../../../features/connection_weights/start.ts";
import { SHORTEST_PAUSE_MS } from "../../../../features/connection_weights/watch.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { serveIPv4 } from "../../../fakes/served_family.ts";

const ADDRESSES = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];
const TARGETS = ADDRESSES.map((address) => `${address}:8080`);
const SLOW = TARGETS[0]!;

const asking = (at = "default/web", index = 1, own: OwnTexts = { balance: "least-connections" }) =>
  service(at, { clusterIPs: [`10.0.0.${index}`], own });

/** A family with the feature, and a kernel in which every endpoint ends 50 connections per second. */
async function weighing() {
  const changes: (() => void)[] = [];
  const { apply, clock, family, link, tracking } = serveIPv4(["--proxy-mode", "nftables"], () => {
    for (const change of changes) change();
  });
  const connections = new Map<string, EndpointConnections>(TARGETS.map((target) => [target, { open: 0, opened: 0 }]));
  const kernel: { open: Map<string, number>; durationMs: number; failure?: string; isDead?: true; isIdle?: true } = {
    open: new Map(),
    durationMs: 1,
  };
  const readings: number[] = [], problems: string[] = [], plannedAgain: string[][] = [];
  const answer = (): ConnectionAnswer | undefined => {
    readings.push(clock.monotonic());
    if (kernel.isDead) return undefined;
    if (kernel.failure !== undefined) return { failure: kernel.failure };
    if (kernel.isIdle) return { endpoints: undefined, durationMs: kernel.durationMs };
    for (const [target, { opened }] of connections) {
      connections.set(target, { open: kernel.open.get(target) ?? 3, opened: opened + 100 });
    }
    return { endpoints: new Map(connections), durationMs: kernel.durationMs };
  };
  const served: NodeFamily = {
    ...family,
    call: () => Promise.resolve(answer() as never),
    planAgain(services) {
      plannedAgain.push([...services]);
      family.planAgain(services);
    },
  };
  const end = new AbortController();
  const running = await start(featureNode({
    ...{ clock, tracking, families: [served], signal: end.signal },
    reportProblems: (_, list) => problems.push(list.map(({ code, detail }) => `${code}: ${detail}`).join()),
  }));
  changes.push(() => {
    running.planned(undefined as never);
    running.changed(
      "IPv4",
      { set: new Map(Array.from(family.ports(), (one) => [one.key, one.wanted])), deleted: [], replaced: new Map() },
      0,
    );
  });
  const slots = (name = "default/web") => family.portsOf(name)[0]?.planned?.balance?.clusterSlots;
  /** Lets the kernel accept what was sent, and some time pass. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 1_000) {
      link.report();
      await clock.advanceSettled(1_000);
    }
  };
  const slice = (at = "default/web-a") => endpointSlice(at, ADDRESSES.map((address) => endpoint(address)));
  return { apply, clock, family, kernel, readings, problems, plannedAgain, slots, pass, slice, end };
}

/** The module of the watch is loaded on demand, which no clock controls. */
const loaded = () => import("../../../../features/connection_weights/watch.ts");

Deno.test("nothing is read until a service asks, and no longer once none asks, after a last reading", async () => {
  const { apply, readings, slice, pass, slots } = await weighing();
  await apply(asking("default/web", 1, {}), slice());
  await loaded();
  await pass(10_000);
  assert.deepEqual([readings.length, slots()], [0, undefined]);
  await apply(asking());
  await loaded();
  await pass(2 * SHORTEST_PAUSE_MS);
  assert.ok(readings.length > 0);
  assert.deepEqual(slots(), [1, 1, 1, 1]);
  const asked = readings.length;
  await apply(asking("default/web", 1, {}));
  assert.equal(readings.length, asked + 1);
  const before = readings.length;
  await pass(10 * SHORTEST_PAUSE_MS);
  assert.equal(readings.length, before);
  await apply(asking());
  await loaded();
  await pass(2 * SHORTEST_PAUSE_MS);
  assert.ok(readings.length > before);
});

Deno.test("an endpoint with more connections for the same throughput gets fewer slots, and all again when it has as many", async () => {
  const { apply, kernel, slice, pass, slots, family, plannedAgain } = await weighing();
  await apply(asking(), slice());
  await loaded();
  await pass(10_000);
  assert.deepEqual([slots(), plannedAgain.length], [[1, 1, 1, 1], 0]);
  kernel.open.set(SLOW, 60);
  await pass(20_000);
  const [slow, ...fast] = slots()!;
  assert.ok(slow! <= 2 && fast.every((count) => count >= 9), String(slots()));
  assert.equal(slots()!.reduce((sum, count) => sum + count, 0), 32);
  const count = plannedAgain.length;
  await pass(20_000);
  assert.equal(plannedAgain.length, count, "the same counts change nothing");
  assert.ok(family.basis.planner.openConnections(SLOW) === 60);
  kernel.open.delete(SLOW);
  await pass(40_000);
  assert.deepEqual(slots(), [1, 1, 1, 1]);
});

Deno.test("if connections cannot be counted, a problem says why, and the configured weights return", async () => {
  for (const isDead of [false, true]) {
    const { apply, kernel, slice, pass, slots, problems } = await weighing();
    await apply(asking(), slice());
    await loaded();
    kernel.open.set(SLOW, 60);
    await pass(20_000);
    assert.notDeepEqual(slots(), [1, 1, 1, 1]);
    if (isDead) kernel.isDead = true;
    else kernel.failure = "Error: Operation not supported";
    await pass(80_000);
    assert.deepEqual(slots(), [1, 1, 1, 1]);
    const why = isDead ? "the worker does not answer" : "Error: Operation not supported";
    assert.deepEqual(new Set(problems), new Set([`connections-not-counted: ${why}`]));
    delete kernel.isDead;
    delete kernel.failure;
    await pass(40_000);
    assert.equal(problems.at(-1), "");
    assert.notDeepEqual(slots(), [1, 1, 1, 1]);
  }
});

Deno.test("the pause after a reading follows from its duration, and the end of the run ends them", async () => {
  const { apply, kernel, slice, pass, readings, end } = await weighing();
  kernel.durationMs = 1;
  kernel.isIdle = true;
  await apply(asking(), slice());
  await loaded();
  await pass(60_000);
  assert.ok(readings.length > 25);
  // Short readings without a change say nothing about those with one.
  kernel.durationMs = 50;
  delete kernel.isIdle;
  await pass(4_000);
  readings.length = 0;
  await pass(120_000);
  const count = readings.length;
  assert.ok(count > 3);
  for (let i = 1; i < count; i++) assert.equal(readings[i]! - readings[i - 1]!, 20_000);
  end.abort();
  await pass(60_000);
  assert.equal(readings.length, count);
});

Deno.test("of many services, those with the greatest change are written first, a limited number at once", async () => {
  const { apply, kernel, slice, pass, plannedAgain } = await weighing();
  const names = Array.from({ length: 60 }, (_, i) => `default/web${i}`);
  await apply(...names.flatMap((name, i) => [asking(name, i + 1), slice(`${name}-a`)]));
  await loaded();
  kernel.open.set(SLOW, 60);
  await pass(240_000);
  assert.deepEqual(plannedAgain.slice(0, 2).map(({ length }) => length), [25, 25]);
  assert.deepEqual(new Set(plannedAgain.flat()), new Set(names));
});

Deno.test("the ports of a service are written at once, and count once", async () => {
  const { apply, kernel, pass, plannedAgain, slice } = await weighing();
  const names = Array.from({ length: 26 }, (_, i) => `default/web${i}`);
  const portsOf = (http: number, https: number) =>
    Object.entries({ http, https }).map(([name, port]) => ({ name, protocol: "tcp" as const, port, nodePort: 0 }));
  await apply(...names.flatMap((name, i) => [
    { ...asking(name, i + 1), ports: portsOf(80, 443) },
    { ...slice(`${name}-a`), ports: portsOf(8080, 8080) },
  ]));
  await loaded();
  kernel.open.set(SLOW, 60);
  await pass(60_000);
  assert.deepEqual(plannedAgain.slice(0, 2).map(({ length }) => length), [25, 1]);
});

Deno.test("after a failure, connections are read again every 10 s", async () => {
  const { apply, kernel, slice, pass, readings } = await weighing();
  kernel.failure = "Error: Operation not supported";
  await apply(asking(), slice());
  await loaded();
  await pass(60_000);
  assert.ok(readings.length > 3);
  for (let i = 1; i < readings.length; i++) assert.equal(readings[i]! - readings[i - 1]!, 10_000);
});

Deno.test("the shortest of the last eight readings counts: a short one is out of date after that", async () => {
  const { apply, kernel, slice, pass, readings } = await weighing();
  await apply(asking(), slice());
  await loaded();
  await pass(4_000);
  kernel.durationMs = 50;
  readings.length = 0;
  await pass(120_000);
  const pauses = readings.slice(1).map((at, i) => at - readings[i]!);
  assert.deepEqual([pauses[0], pauses.at(-1)], [2_000, 20_000]);
  assert.equal(pauses.indexOf(20_000), 7);
});

Deno.test("the problem ends when no service asks any more", async () => {
  const { apply, kernel, slice, pass, problems } = await weighing();
  kernel.failure = "Error: Operation not supported";
  await apply(asking(), slice());
  await loaded();
  await pass(10_000);
  assert.match(problems.at(-1)!, /connections-not-counted/);
  await apply(asking("default/web", 1, {}));
  await pass(20_000);
  assert.equal(problems.at(-1), "");
});
