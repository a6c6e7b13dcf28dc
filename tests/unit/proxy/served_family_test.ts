/** When what a health check says of a family's endpoints holds: once the worker has reported the rules to them. */
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

function setUp() {
  const clock = createFakeClock(), link = createFakeFamilyLink();
  const configuration = accepted(["--hostname-override", "here", "--source", "file:none"]).configuration;
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: "here",
    bindAddress: "",
    clock,
    onChange: () => {},
    onProblems: () => {},
  });
  const planner = createHealthCheckPlanner({ nodeName: "here", tracking });
  const told: [string, number][] = [];
  const family = serveFamily("IPv4", tracking, {
    configuration,
    logger: silentLogger,
    logging: { level: "info", format: "text" },
    clock,
    startFamily: (_options, listener) => link.connect(listener),
    signal: new AbortController().signal,
  }, {
    onChange: () => {},
    onReport: () => {},
    onHealth: () => {},
    onHealthChecks: (_family, counts) => told.push(...counts),
    onProblems: () => {},
  }, () => true);
  family.configure();
  family.start();
  link.reset();
  return {
    link,
    told,
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

Deno.test("endpoints are told of when the sync with their rules has ended, and not when it has failed", async () => {
  const { link, told, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  assert.equal(link.sent.length, 1);
  assert.deepEqual(told, []);
  link.report({ ok: false });
  assert.deepEqual(told, []);
  link.report();
  assert.deepEqual(told, [["default/web", 1]]);
});

Deno.test("endpoints that come while a sync runs are told of with the next one", async () => {
  const { link, told, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  await apply(slice("10.1.0.1", "10.1.0.2"));
  link.report();
  assert.deepEqual(told, [["default/web", 1]]);
  await apply();
  link.report();
  assert.deepEqual(told.at(-1), ["default/web", 2]);
});

Deno.test("a service whose rules the kernel refuses is told of when it takes them", async () => {
  const { link, told, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  link.report({ problems: [{ code: "rules-refused", servicePort: "default/web:http", message: "refused" }] });
  assert.deepEqual(told, []);
  link.report();
  assert.deepEqual(told, [["default/web", 1]]);
});

Deno.test("a change that is undone before it is sent holds nothing back", async () => {
  const { link, told, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  await apply(slice());
  await apply(slice("10.1.0.1"));
  link.report();
  assert.deepEqual(told, [["default/web", 1]]);
});

Deno.test("endpoints that change no rule are told of at once where everything sent is in effect", async () => {
  const { link, told, apply } = setUp();
  await apply(web, slice("10.1.0.1"));
  link.report();
  const ofAnotherPort = endpointSlice("default/web-b", [endpoint("10.1.0.9", { nodeName: "here" })], {
    ports: [{ name: "unused", protocol: "tcp", port: 9090 }],
  });
  await apply(ofAnotherPort);
  assert.equal(link.sent.length, 1);
  assert.deepEqual(told.at(-1), ["default/web", 2]);
});
