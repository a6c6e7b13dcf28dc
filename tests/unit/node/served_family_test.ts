/** Health checks count a family's endpoints only once the worker has reported their rules as in effect. */
import assert from "node:assert/strict";
import type { ClusterObject, Service } from "../../../core/objects/cluster_object.ts";
import { settled } from "../../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../../fakes/cluster_objects.ts";
import { serveIPv4 } from "../../fakes/served_family.ts";

const web: Service = service("default/web", {
  type: "LoadBalancer",
  clusterIPs: ["10.0.0.1"],
  externalPolicyLocal: true,
  healthCheckNodePort: 32000,
});

function slice(...addresses: readonly string[]): ClusterObject {
  return endpointSlice("default/web-a", addresses.map((address) => endpoint(address, { nodeName: "here" })));
}

Deno.test("endpoints are reported after a successful sync of their rules, not after a failed one", async () => {
  const { link, reported, apply } = serveIPv4();
  await apply(web, slice("10.1.0.1"));
  assert.equal(link.sent.length, 1);
  assert.deepEqual(reported, []);
  link.report({ ok: false });
  assert.deepEqual(reported, []);
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("endpoints added during a sync are reported after the next one", async () => {
  const { link, reported, apply } = serveIPv4();
  await apply(web, slice("10.1.0.1"));
  await apply(slice("10.1.0.1", "10.1.0.2"));
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
  await apply();
  link.report();
  assert.deepEqual(reported.at(-1), ["default/web", 2]);
});

Deno.test("a service whose rules the kernel rejects is reported once they are accepted", async () => {
  const { link, reported, apply } = serveIPv4();
  await apply(web, slice("10.1.0.1"));
  link.report({ problems: [{ code: "rules-refused", servicePort: "default/web:http", message: "refused" }] });
  assert.deepEqual(reported, []);
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("a change that is reverted before it is sent delays nothing", async () => {
  const { link, reported, apply } = serveIPv4();
  await apply(web, slice("10.1.0.1"));
  await apply(slice());
  await apply(slice("10.1.0.1"));
  link.report();
  assert.deepEqual(reported, [["default/web", 1]]);
});

Deno.test("endpoints that change no rule are reported at once if everything sent is in effect", async () => {
  const { link, reported, apply } = serveIPv4();
  await apply(web, slice("10.1.0.1"));
  link.report();
  const ofAnotherPort = endpointSlice("default/web-b", [endpoint("10.1.0.9", { nodeName: "here" })], {
    ports: [{ name: "unused", protocol: "tcp", port: 9090 }],
  });
  await apply(ofAnotherPort);
  assert.equal(link.sent.length, 1);
  assert.deepEqual(reported.at(-1), ["default/web", 2]);
});

Deno.test("a family leaves endpoints out, and uses them again, when their services are planned again", async () => {
  const { link, apply, family } = serveIPv4();
  const unreachable = new Set<string>();
  family.leaveOut(() => unreachable);
  await apply(web, slice("10.1.0.1", "10.1.0.2", "10.1.0.3"));
  link.report();
  unreachable.add("10.1.0.1:8080");
  family.planAgain(new Set(["default/web"]));
  await settled();
  const [port] = link.sent.at(-1)!.set;
  assert.deepEqual(port!.clusterEndpoints, ["10.1.0.2:8080", "10.1.0.3:8080"]);
  assert.deepEqual(port!.unreachableEndpoints, ["10.1.0.1:8080"]);
  link.report();
  unreachable.clear();
  family.planAgain(new Set(["default/web"]));
  await settled();
  assert.equal(link.sent.length, 3);
  assert.ok(!("unreachableEndpoints" in link.sent.at(-1)!.set[0]!));
});

Deno.test("the effect of Sluice's own service is reported for its latest target alone, and not after its removal", async () => {
  const { link, family, clock } = serveIPv4();
  const inEffect: string[] = [];
  const serve = async (target: string | undefined) => {
    const service = target === undefined ? undefined : { address: "10.0.0.9", target };
    family.serveInternal(service, () => inEffect.push(target ?? "none"));
    await settled();
    await clock.advanceSettled(5_000);
  };
  await serve("10.1.0.1:1");
  await serve("10.1.0.1:2");
  link.report();
  await clock.advanceSettled(5_000);
  link.report();
  assert.deepEqual(inEffect, ["10.1.0.1:2"]);
  await serve("10.1.0.1:3");
  await serve(undefined);
  link.report();
  await clock.advanceSettled(5_000);
  link.report();
  assert.deepEqual(inEffect, ["10.1.0.1:2"]);
});
