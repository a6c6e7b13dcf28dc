/** The status of a running proxy, and the stamp by which the status page knows that its services may have changed. */
import assert from "node:assert/strict";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import type { CountsOfPorts, SyncReport } from "../../../core/model/mod.ts";
import { type RunningProxy, statusOf } from "../../../node/running_status.ts";
import { createProxyHealth, createStatusRecorder } from "../../../observe/mod.ts";
import { createSourceLink } from "../../../observe/process/mod.ts";
import { VERSION } from "../../../platform/build.ts";
import { silentLogger } from "../../../platform/log.ts";
import { settled } from "../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../fakes/cluster_objects.ts";
import { serveIPv4 } from "../../fakes/served_family.ts";

/** A proxy that serves IPv4, and the times at which its counters were last read. */
function running(...flags: readonly string[]) {
  const served = serveIPv4(flags), { clock, configuration, tracking, family } = served;
  const recorder = createStatusRecorder(), readMs: { IPv4?: number; IPv6?: number } = {};
  const counts = { lastReadMs: (of) => readMs[of] } as Partial<CountsOfPorts> as CountsOfPorts;
  const proxy: RunningProxy = {
    ...{ configuration, tracking, recorder, clock, families: [family], startedAtMs: 0 },
    health: createProxyHealth({ clock, syncPeriodMs: 30_000 }),
    problems: createProblemBoard(clock, silentLogger),
    feed: { read: () => ({ startedAtMs: 0, last: 0, events: [] }) },
    link: createSourceLink(clock),
    features: { counts: () => counts, status: () => ({}) },
  };
  const sync = (report: Partial<SyncReport>) =>
    recorder.report({
      ...{ family: "IPv4", revision: 1, ok: true, full: false, endedAtMs: clock.now(), durationMs: 1 },
      ...{ problems: [], counts: {} },
      ...report,
    }, []);
  return { ...served, readMs, sync, status: () => statusOf(proxy) };
}

Deno.test("the node's addresses are the known ones, of its primary family first", () => {
  const cases: readonly (readonly [addresses: readonly string[], shown: readonly string[]])[] = [
    [["192.0.2.1", "2001:db8::1"], ["192.0.2.1", "2001:db8::1"]],
    [["2001:db8::1", "192.0.2.1"], ["2001:db8::1", "192.0.2.1"]],
    [["2001:db8::1"], ["2001:db8::1"]],
    [["192.0.2.1"], ["192.0.2.1"]],
    [[], []],
  ];
  for (const [addresses, shown] of cases) {
    const { tracking, status } = running();
    tracking.set(node("here", { addresses }));
    tracking.take();
    assert.deepEqual(status().nodeAddresses, shown);
  }
});

Deno.test("a status says which proxy it is of, on which node, and since when", async () => {
  const { tracking, status, apply, clock, sync } = running("--proxy-mode", "iptables");
  await apply(node("here", { zone: "z1" }));
  sync({});
  const { version, node: name, zone, kernel, mode, source, atMs, startedAtMs, families, ...rest } = status();
  assert.deepEqual(
    [version, name, zone, kernel, mode, source, atMs, startedAtMs],
    [VERSION, "here", "z1", Deno.osRelease(), "iptables", "file:none", clock.now(), 0],
  );
  const { healthy, nodeKnown, services, changesToPlan, problems } = rest;
  assert.deepEqual({ healthy, nodeKnown, services, changesToPlan, problems }, {
    ...{ healthy: true, nodeKnown: tracking.node.state().known, services: 0, changesToPlan: 0, problems: [] },
  });
  assert.deepEqual(families.map(({ family, syncs }) => [family, syncs.length]), [["IPv4", 1]]);
  assert.ok(rest.residentBytes > 1e6);
});

Deno.test("only a server has a link", () => {
  assert.equal(running().status().link, undefined);
  assert.equal(running("--source", "grpc://127.0.0.1:1").status().link?.state, "connecting");
});

Deno.test("a status counts the cluster's services without Sluice's own, and what waits to be planned", async () => {
  const { tracking, apply, family, status } = running();
  await apply(service("default/web"), endpointSlice("default/web-a", [endpoint("10.1.0.1")]));
  family.serveInternal({ address: "10.0.0.9", target: "10.1.0.1:1" }, () => {});
  assert.deepEqual([status().services, status().families[0]!.servicePorts, status().changesToPlan], [1, 1, 0]);
  tracking.set(service("default/api", { clusterIPs: ["10.0.0.2"] }));
  tracking.set(endpointSlice("default/web-a", [endpoint("10.1.0.2")]));
  assert.equal(status().changesToPlan, 2);
});

Deno.test("the stamp changes with all that answers about services depend on, and with nothing else", async () => {
  const { tracking, apply, family, link, clock, readMs, sync, status } = running();
  const slice = (...addresses: readonly string[]) =>
    endpointSlice("default/web-a", addresses.map((address) => endpoint(address)));
  await apply(service("default/web"), slice("10.1.0.1", "10.1.0.2"));
  link.report();
  const leaveOut = async (target: string) => {
    family.leaveOut(() => new Set([target]));
    family.planAgain(new Set(["default/web"]));
    await settled();
  };
  const steps: readonly (readonly [what: string, change: () => void | Promise<void>])[] = [
    ["an endpoint was left out", () => leaveOut("10.1.0.1:8080")],
    ["a service waits to be planned", () => tracking.set(service("default/api", { clusterIPs: ["10.0.0.2"] }))],
    ["endpoints wait to be planned", () => tracking.set(slice("10.1.0.2"))],
    ["a round was planned and sent", () => apply()],
    ["a sync ended", () => sync({ endedAtMs: 1_000 })],
    ["another one ended", () => sync({ endedAtMs: 2_000 })],
    ["one failed at the same time", () => sync({ endedAtMs: 2_000, ok: false })],
    ["one of the other family ended", () => sync({ family: "IPv6", endedAtMs: 2_000 })],
    ["counters were read", () => void (readMs.IPv4 = 10)],
    ["those of the other family, too", () => void (readMs.IPv6 = 10)],
    ["the node moved to another zone", () => apply(node("here", { zone: "b" }))],
  ];
  const seen = new Set([status().stamp]);
  for (const [what, change] of steps) {
    await change();
    const { stamp } = status();
    assert.ok(!seen.has(stamp), `${what}: ${stamp}`);
    seen.add(stamp);
  }
  const { stamp } = status();
  clock.advance(60_000);
  assert.equal(status().stamp, stamp);
});
