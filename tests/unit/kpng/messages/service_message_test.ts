import assert from "node:assert/strict";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { annotateAffinity, serviceMessage, serviceOfMessage } from "../../../../kpng/messages/object_messages.ts";
import { SERVICE, type ServiceMessage } from "../../../../kpng/messages/messages.ts";
import { service } from "../../../fakes/cluster_objects.ts";

/** A load balancer with these filters, as decoded, and its problems. */
function received(ipFilters: ServiceMessage["ipFilters"]): { service: Service; problems: readonly string[] } {
  const { object, problems } = serviceOfMessage({
    ...{ namespace: "default", name: "web", type: "LoadBalancer", ports: [{ name: "http", protocol: 1, port: 80 }] },
    ips: {
      clusterIPs: { v4: ["10.96.0.10"] },
      externalIPs: { v4: ["198.51.100.7"] },
      loadBalancerIPs: { v4: ["198.51.100.5"], v6: ["2001:db8::5"] },
    },
    ipFilters,
  }, false);
  assert.equal(object?.kind, "Service");
  return { service: object as Service, problems };
}

const LOAD_BALANCER_IPS = ["198.51.100.5", "2001:db8::5"];

Deno.test("a filter without targets, as KPNG's kube source sends it, is for all load balancer IPs", () => {
  for (const targetIPs of [undefined, {}, { v4: [], v6: [] }]) {
    const { service, problems } = received([{ targetIPs, sourceRanges: ["203.0.113.0/24"] }]);
    assert.deepEqual(service.sourceRanges, ["203.0.113.0/24"]);
    assert.deepEqual(service.loadBalancerIPs, LOAD_BALANCER_IPS);
    assert.deepEqual(problems, []);
  }
});

Deno.test("a filter of one load balancer IP is for all of them", () => {
  const { service } = received([{ targetIPs: { v4: ["198.51.100.5"] }, sourceRanges: ["203.0.113.0/24"] }]);
  assert.deepEqual(service.sourceRanges, ["203.0.113.0/24"]);
});

for (const sourceRanges of [undefined, [], [""], ["203.0.113.0/240", "everyone"]]) {
  Deno.test(`a filter with the ranges ${JSON.stringify(sourceRanges)} closes its addresses`, () => {
    const { service, problems } = received([{ sourceRanges }]);
    assert.deepEqual(service.loadBalancerIPs, []);
    assert.deepEqual(service.clusterIPs, ["10.96.0.10"]);
    assert.deepEqual(problems, [
      "IP filter for 198.51.100.5, 2001:db8::5 has no usable source range; not serving these addresses",
    ]);
  });
}

Deno.test("a filter for other addresses than load balancer IPs closes them", () => {
  const { service, problems } = received([
    { targetIPs: { v4: ["198.51.100.7", "198.51.100.5"] }, sourceRanges: ["203.0.113.0/24"] },
  ]);
  assert.deepEqual(service.externalIPs, []);
  assert.deepEqual(service.loadBalancerIPs, LOAD_BALANCER_IPS);
  assert.deepEqual(service.sourceRanges, ["203.0.113.0/24"]);
  assert.deepEqual(problems, ["IP filter for 198.51.100.7 is not for load balancer IPs; not serving these addresses"]);
});

Deno.test("a filter of a service without load balancer IPs has no effect", () => {
  const { object, problems } = serviceOfMessage(
    { namespace: "default", name: "web", type: "ClusterIP", ipFilters: [{ sourceRanges: ["203.0.113.0/24"] }] },
    false,
  );
  assert.equal(object?.kind, "Service");
  assert.deepEqual(problems, []);
});

Deno.test("cluster and external IPs are always in a message, even empty, because KPNG's backends crash without them", () => {
  const { ips } = SERVICE.decode(
    SERVICE.encode(serviceMessage(service("default/web", { clusterIPs: [], externalIPs: [] }), false)),
  );
  assert.deepEqual(ips, { clusterIPs: {}, externalIPs: {}, headless: true });
});

Deno.test("session affinity that a KPNG passed on as an annotation of its state file is kept", () => {
  const sticky = service("default/web", {
    affinitySeconds: 600,
    details: { labels: {}, annotations: {}, mapIP: false },
  });
  const message = SERVICE.decode(SERVICE.encode(annotateAffinity(serviceMessage(sticky, false))));
  assert.equal(message.clientIP, undefined);
  const { object } = serviceOfMessage(message, true);
  assert.equal(object?.kind === "Service" && object.affinitySeconds, 600);
  assert.deepEqual(object?.kind === "Service" && object.details?.annotations, {});
});

Deno.test("session affinity in a message takes precedence over its annotation, and an invalid annotation is ignored", () => {
  const affinity = (message: Partial<ServiceMessage>) => {
    const { object } = serviceOfMessage({ ...serviceMessage(service("default/web"), false), ...message }, false);
    return object?.kind === "Service" ? object.affinitySeconds : undefined;
  };
  const annotations = { "sluice/affinity-seconds": "600" };
  assert.equal(affinity({ annotations, clientIP: { timeoutSeconds: 30 } }), 30);
  assert.equal(affinity({ annotations: { "sluice/affinity-seconds": "-1" } }), 0);
});

Deno.test("Sluice's own annotations reach the nodes as they are, whichever others are passed on", () => {
  const own = { balance: "consistent-hash", weights: "zone=a: 2", nodePortAddresses: "192.168.1.0/24, nonsense" };
  const details = { labels: {}, annotations: { other: "x" }, mapIP: false };
  const message = serviceMessage(service("default/web", { own, details }), false);
  assert.deepEqual(message.annotations, {
    other: "x",
    "sluice.dev/balance": "consistent-hash",
    "sluice.dev/weights": "zone=a: 2",
    "sluice.dev/node-port-addresses": own.nodePortAddresses,
  });
  const received = (sent: ServiceMessage) =>
    serviceOfMessage(SERVICE.decode(SERVICE.encode(sent)), false).object as Service;
  assert.deepEqual(received(message).own, own);
  // An empty list limits the node ports, too.
  const empty = { nodePortAddresses: "" };
  assert.deepEqual(received(serviceMessage(service("default/web", { own: empty }), false)).own, empty);
});

Deno.test("a Sluice that asks for extensions learns when a service was created; a time that is none is ignored", () => {
  const old = service("default/web", { createdSeconds: 1_700_000_000 });
  assert.equal(serviceMessage(old, false).createdSeconds, undefined);
  const message = SERVICE.decode(SERVICE.encode(serviceMessage(old, true)));
  const received = (createdSeconds: number | undefined) =>
    (serviceOfMessage({ ...message, createdSeconds }, false).object as Service).createdSeconds;
  assert.equal(received(message.createdSeconds), 1_700_000_000);
  for (const time of [undefined, 0, -1, 1.5, 1e300, NaN]) assert.equal(received(time), undefined, String(time));
});

Deno.test("a Sluice that asks for extensions learns of another selector", () => {
  const chosen = service("default/web", { selector: 4_000_000_000 });
  assert.equal(serviceMessage(chosen, false).selector, undefined);
  const received = (sent: ServiceMessage) =>
    (serviceOfMessage(SERVICE.decode(SERVICE.encode(sent)), false).object as Service).selector;
  assert.equal(received(serviceMessage(chosen, true)), 4_000_000_000);
  assert.equal(received(serviceMessage(service("default/web"), true)), undefined);
});
