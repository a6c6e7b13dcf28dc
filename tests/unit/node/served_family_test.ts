/** Health checks count a family's endpoints only once the worker has reported their rules as in effect. */
import assert from "node:assert/strict";
import { INTERNAL_SERVICE } from "../../../core/planning/mod.ts";
import type { ClusterObject, Service } from "../../../core/objects/cluster_object.ts";
import { settled } from "../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../fakes/cluster_objects.ts";
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

Deno.test("only changes of service ports are announced: no sync would follow others", async () => {
  const { announced, apply } = serveIPv4();
  await apply(node("elsewhere"));
  await apply(web, slice("10.1.0.1"));
  await apply(service("default/six", { clusterIPs: ["fd00::1"] }), node("elsewhere"));
  await apply({ ...web, clusterIPs: [] });
  assert.deepEqual(announced, [[1, 0], [0, 1]]);
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

Deno.test("the times of changes are reported when the changes are in effect", async () => {
  const { link, triggerTimesMs, apply, clock } = serveIPv4();
  const at = (timeMs: number, ...addresses: readonly string[]) =>
    endpointSlice("default/web-a", addresses.map((address) => endpoint(address)), { triggerTimeMs: timeMs });
  await apply(web, at(0, "10.1.0.1"));
  link.report();
  const timeMs = clock.now();
  await apply(at(timeMs, "10.1.0.2"));
  link.report({ ok: false });
  assert.deepEqual(triggerTimesMs, []);
  link.report();
  assert.deepEqual(triggerTimesMs, [timeMs]);
});

Deno.test("node ports at an unknown primary address are a problem, until the address is known", async () => {
  const { problems, apply, family, tracking } = serveIPv4(["--nodeport-addresses", "primary"]);
  const current = () => problems.get("node ports IPv4")?.map(({ code, detail }) => `${code}: ${detail}`) ?? [];
  const withNodePort = (name: string, nodePort: number) =>
    service(name, {
      ...{ type: "NodePort", clusterIPs: [`10.0.1.${nodePort % 10}`] },
      ports: [{ name: "http", protocol: "tcp", port: 80, nodePort }],
    });
  await apply(service("default/plain"));
  assert.deepEqual(current(), []);
  await apply(withNodePort("default/web", 30_000), withNodePort("default/api", 30_001));
  assert.equal(current().length, 1);
  assert.match(
    current()[0]!,
    /^node-ports-closed: node ports, such as 30000 of default\/web:http, are served on no IPv4/,
  );
  tracking.set(node("here", { addresses: ["192.0.2.1"] }));
  await apply(withNodePort("default/web", 30_002));
  assert.deepEqual(current(), []);
  const ahead = serveIPv4(["--nodeport-addresses", "primary"]);
  ahead.tracking.set(withNodePort("default/web", 30_000));
  ahead.tracking.take();
  ahead.family.startAhead(["default/web"]);
  assert.equal(ahead.problems.get("node ports IPv4")?.length, 1);
  assert.ok(family.hasServicePorts());
});

Deno.test("after two syncs in a row, the next one waits as long as the configuration says", async () => {
  const { link, apply, clock } = serveIPv4(["--iptables-min-sync-period", "60s", "--iptables-sync-period", "60s"]);
  for (const address of ["10.1.0.1", "10.1.0.2", "10.1.0.3"]) {
    await apply(web, slice(address));
    link.report();
  }
  assert.equal(link.sent.length, 2);
  await clock.advanceSettled(60_000);
  assert.equal(link.sent.length, 3);
});

Deno.test("Sluice's own service is none of the cluster's", async () => {
  const { family, apply } = serveIPv4();
  await apply(web);
  family.serveInternal({ address: "10.0.0.9", target: "10.1.0.1:1" }, () => {});
  assert.deepEqual([...family.ports()].map(({ service }) => service), ["default/web"]);
  assert.deepEqual([...family.portsOf(INTERNAL_SERVICE)], []);
  assert.equal([...family.portsOf("default/web")].length, 1);
});
