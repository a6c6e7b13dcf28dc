/** Health checks count a family's endpoints only once the worker has reported their rules as in effect. */
import assert from "node:assert/strict";
import { createHealthCheckPlanner } from "../../../core/planning/mod.ts";
import { type ClusterObject, KINDS } from "../../../core/objects/cluster_object.ts";
import { type Service } from "../../../core/objects/cluster_object.ts";
import { serveFamily } from "../../../proxy/served_family.ts";
import { createTracking } from "../../../core/tracking/trackers.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../../fakes/cluster_objects.ts";
import { createFakeFamilyLink } from "../../fakes/family_link.ts";
import { accepted } from "../config/parse.ts";

const web: Service = service("default/web", {
  type: "LoadBalancer",
  clusterIPs: ["10.0.0.1"],
  externalPolicyLocal: true,
  healthCheckNodePort: 32000,
});

function slice(...addresses: readonly string[]): ClusterObject {
  return endpointSlice("default/web-a", addresses.map((address) => endpoint(address, { nodeName: "here" })));
}

function setUp(...flags: readonly string[]) {
  const clock = createFakeClock(), link = createFakeFamilyLink();
  const configuration = accepted(["--hostname-override", "here", "--source", "file:none", ...flags]).configuration;
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: "here",
    bindAddress: "",
    clock,
    onChange: () => {},
    onProblems: () => {},
  });
  const planner = createHealthCheckPlanner({ nodeName: "here", tracking });
  const reported: [string, number][] = [];
  const unreachable = new Set<string>();
  const family = serveFamily(
    "IPv4",
    tracking,
    {
      configuration,
      logger: silentLogger,
      logging: { level: "info", format: "text" },
      clock,
      startFamily: (_options, listener) => link.connect(listener),
      signal: new AbortController().signal,
    },
    {
      onChange: () => {},
      onSent: () => {},
      onReport: () => {},
      onHealth: () => {},
      onHealthChecks: (_family, counts) => reported.push(...counts),
      onProblems: () => {},
    },
    () => true,
    () => unreachable,
  );
  family.configure();
  family.start();
  link.reset();
  return {
    link,
    reported,
    family,
    unreachable,
    async apply(...objects: ClusterObject[]) {
      for (const object of objects) tracking.set(object);
      const changes = tracking.take();
      family.apply(changes);
      family.holdHealthChecks(planner.plan(changes));
      await settled();
      await clock.advanceSettled(5_000);
    },
  };
}

Deno.test("endpoints are reported after a successful sync of their rules, not after a failed one", async () => {
  const { link, reported, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  assert.equal(link.sent.length, 1);
  assert.deepEqual(reported, []);
  link.report({ ok: false });
  assert.deepEqual(reported, []);
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("endpoints added during a sync are reported after the next one", async () => {
  const { link, reported, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  await apply(slice("10.1.0.1", "10.1.0.2"));
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
  await apply();
  link.report();
  assert.deepEqual(reported.at(-1), ["default/web", 2]);
});

Deno.test("a service whose rules the kernel rejects is reported once they are accepted", async () => {
  const { link, reported, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  link.report({ problems: [{ code: "rules-refused", servicePort: "default/web:http", message: "refused" }] });
  assert.deepEqual(reported, []);
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("a change that is reverted before it is sent delays nothing", async () => {
  const { link, reported, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  await apply(slice());
  await apply(slice("10.1.0.1"));
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("endpoints that change no rule are reported at once if everything sent is in effect", async () => {
  const { link, reported, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  link.report();
  const ofAnotherPort = endpointSlice("default/web-b", [endpoint("10.1.0.9", { nodeName: "here" })], {
    ports: [{ name: "unused", protocol: "tcp", port: 9090 }],
  });
  await apply(ofAnotherPort);
  assert.equal(link.sent.length, 1);
  assert.deepEqual(reported.at(-1), ["default/web", 2]);
});

Deno.test("an endpoint that becomes unreachable changes the service ports that use it, and no other", async () => {
  const { link, apply, family, unreachable } = setUp();
  await apply(web, slice("10.1.0.1", "10.1.0.2", "10.1.0.3"));
  link.report();
  const uses = family.usesOf(new Set(["10.1.0.1:8080", "10.9.9.9:8080"]));
  assert.deepEqual([...uses], [["10.1.0.1:8080", {
    servicePorts: ["default/web:http"],
    siblings: ["10.1.0.2:8080", "10.1.0.3:8080"],
  }]]);
  unreachable.add("10.1.0.1:8080");
  family.planAgain(unreachable);
  await settled();
  const [port] = link.sent.at(-1)!.set;
  assert.deepEqual(port!.clusterEndpoints, ["10.1.0.2:8080", "10.1.0.3:8080"]);
  assert.deepEqual(port!.unreachableEndpoints, ["10.1.0.1:8080"]);
  assert.deepEqual(family.usesOf(unreachable).get("10.1.0.1:8080")!.siblings, ["10.1.0.2:8080", "10.1.0.3:8080"]);
  link.report();
  unreachable.clear();
  family.planAgain(new Set(["10.1.0.1:8080"]));
  await settled();
  assert.equal(link.sent.length, 3);
  assert.ok(!("unreachableEndpoints" in link.sent.at(-1)!.set[0]!));
});

Deno.test("endpoints of an earlier run are gone if no slice has them, whether they are known before the first plan or after it", async () => {
  const earlier = [
    slice("10.1.0.1", "10.1.0.9"),
    endpointSlice("default/web-b", [endpoint("fd00::9")], { family: "IPv6" }),
  ];
  for (const isFirst of [true, false]) {
    const { link, apply, family } = setUp("--proxy-mode", "nftables", "--reset-gone-connections");
    if (isFirst) family.noteEarlier(earlier);
    await apply(web, slice("10.1.0.1"));
    if (!isFirst) {
      link.report();
      family.noteEarlier(earlier);
      await settled();
    }
    assert.deepEqual(link.sent.at(-1)!.gone, ["10.1.0.9:8080"]);
    link.report();
    await apply(slice("10.1.0.1", "10.1.0.2"));
    assert.ok(!("gone" in link.sent.at(-1)!));
  }
});
