import assert from "node:assert/strict";
import { type Kind, KINDS } from "../../../../core/objects/cluster_object.ts";
import { createTracking } from "../../../../core/tracking/trackers.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { sayProblems } from "../../../fakes/problems.ts";

function createTracked(
  kinds: readonly Kind[] = KINDS,
  { awaitsPodCIDR = false, externalIPs }: { awaitsPodCIDR?: boolean; externalIPs?: boolean } = {},
) {
  const calls = { synced: 0, changes: 0, problems: [] as string[] };
  const tracking = createTracking({
    kinds,
    nodeName: "here",
    bindAddress: "",
    awaitsPodCIDR,
    onSynced: () => calls.synced++,
    externalIPs,
    clock: createFakeClock(),
    onChange: () => calls.changes++,
    onProblems: sayProblems((where, message) => calls.problems.push(`${where}: ${message}`)),
  });
  return { tracking, calls };
}

function createSynced() {
  const tracked = createTracked();
  for (const kind of KINDS) tracked.tracking.synced(kind);
  tracked.tracking.take();
  tracked.calls.changes = 0;
  return tracked;
}

Deno.test("onChange is called once, when every kind is synced", () => {
  const { tracking, calls } = createTracked(["Service", "EndpointSlice", "Node"]);
  tracking.set(service("default/web"));
  tracking.synced("Service");
  tracking.set(endpointSlice("default/web-a", [endpoint("10.1.0.1")]));
  tracking.synced("EndpointSlice");
  assert.equal(tracking.ready(), false);
  assert.equal(calls.changes, 0);
  tracking.synced("Node");
  assert.equal(tracking.ready(), true);
  assert.equal(calls.changes, 1);
  const changes = tracking.take();
  assert.deepEqual([...changes.services], ["default/web"]);
  assert.deepEqual([...changes.endpoints.IPv4.services], ["default/web"]);
  assert.deepEqual([...changes.endpoints.IPv6.services], []);
  assert.equal(changes.node, undefined);
});

Deno.test("if a pod CIDR is awaited, onChange is called with the first one, and with later changes", () => {
  const { tracking, calls } = createTracked(KINDS, { awaitsPodCIDR: true });
  tracking.set(service("default/web"));
  tracking.set(node("here"));
  for (const kind of KINDS) tracking.synced(kind);
  tracking.set(service("default/db"));
  assert.deepEqual([calls.synced, calls.changes], [1, 0]);
  tracking.set(node("here", { podCIDRs: ["10.1.0.0/24"] }));
  assert.equal(calls.changes, 1);
  assert.deepEqual([...tracking.take().services], ["default/web", "default/db"]);
  tracking.set(node("here", { podCIDRs: ["10.2.0.0/24"] }));
  assert.equal(calls.changes, 2);
  assert.deepEqual(tracking.take().node?.changed, ["podCIDRs"]);
  tracking.set(node("here"));
  assert.equal(calls.changes, 2);
  for (const kind of KINDS) tracking.synced(kind);
  assert.equal(calls.synced, 1);
});

Deno.test("a service with another selector is told from one that is new or has changed otherwise", () => {
  const { tracking } = createSynced();
  const at = (selector: number | undefined, port = 80) =>
    tracking.set(service("default/web", { selector, ports: [{ name: "http", protocol: "tcp", port, nodePort: 0 }] }));
  const reselected = () => [...tracking.take().reselected];
  at(1);
  assert.deepEqual(reselected(), []);
  at(1, 81);
  assert.deepEqual(reselected(), []);
  at(2, 81);
  assert.deepEqual(reselected(), ["default/web"]);
  at(undefined, 81);
  assert.deepEqual(reselected(), ["default/web"]);
});

Deno.test("onChange is called for an empty cluster when it is synced", () => {
  const { tracking, calls } = createTracked();
  for (const kind of KINDS) tracking.synced(kind);
  assert.equal(calls.changes, 1);
});

Deno.test("onChange is called once until changes are taken, and not for equal objects", () => {
  const { tracking, calls } = createSynced();
  tracking.set(service("default/web"));
  tracking.set(service("default/db"));
  assert.equal(calls.changes, 1);
  tracking.take();
  tracking.set(service("default/web"));
  assert.equal(calls.changes, 1);
  tracking.delete({ kind: "Service", namespace: "default", name: "web" });
  assert.equal(calls.changes, 2);
  tracking.take();
  tracking.set(node("here", { zone: "a" }));
  assert.equal(calls.changes, 3);
  assert.deepEqual(tracking.take().node?.changed, ["zone", "known"]);
  tracking.set(endpointSlice("default/web-a", [endpoint("fd00::1")], { family: "IPv6" }));
  assert.equal(calls.changes, 4);
  assert.deepEqual([...tracking.take().endpoints.IPv6.services], ["default/web"]);
});

Deno.test("after a reset, objects not set again before synced are gone, and nothing else changes", () => {
  const { tracking, calls } = createSynced();
  const slice = (name: string) => endpointSlice(`default/${name}`, [endpoint("10.1.0.1")]);
  for (const name of ["kept", "lost", "deleted"]) {
    tracking.set(service(`default/${name}`));
    tracking.set(slice(`${name}-a`));
  }
  tracking.set(node("here", { zone: "a" }));
  tracking.take();
  calls.changes = 0;

  for (const kind of KINDS) tracking.reset(kind);
  tracking.set(service("default/kept"));
  tracking.set(service("default/new"));
  tracking.set(slice("kept-a"));
  tracking.delete({ kind: "Service", namespace: "default", name: "deleted" });
  tracking.set(node("here", { zone: "a" }));
  assert.deepEqual([...tracking.take().services].sort(), ["default/deleted", "default/new"]);

  for (const kind of KINDS) tracking.synced(kind);
  const changes = tracking.take();
  assert.deepEqual([...changes.services], ["default/lost"]);
  assert.deepEqual([...changes.endpoints.IPv4.services].sort(), ["default/deleted", "default/lost"]);
  assert.equal(changes.node, undefined);
  assert.deepEqual([...tracking.services.keys()].sort(), ["default/kept", "default/new"]);
});

Deno.test("a second reset replaces an unfinished one", () => {
  const { tracking } = createSynced();
  tracking.set(service("default/web"));
  tracking.take();
  tracking.reset("Service");
  tracking.set(service("default/web"));
  tracking.reset("Service");
  tracking.synced("Service");
  assert.deepEqual([...tracking.take().services], ["default/web"]);
  assert.deepEqual([...tracking.services.keys()], []);
});

Deno.test("a Node not set again after a reset is deleted", () => {
  const { tracking } = createSynced();
  tracking.set(node("here", { zone: "a" }));
  tracking.take();
  tracking.reset("Node");
  tracking.synced("Node");
  assert.deepEqual(tracking.take().node?.changed, ["deleted"]);
});

Deno.test("a slice that changes its family is removed from the old one", () => {
  const { tracking } = createSynced();
  tracking.set(endpointSlice("default/web-a", [endpoint("10.1.0.1")]));
  tracking.take();
  tracking.set(endpointSlice("default/web-a", [endpoint("fd00::1")], { family: "IPv6" }));
  const { endpoints } = tracking.take();
  assert.deepEqual([...endpoints.IPv4.services], ["default/web"]);
  assert.deepEqual([...endpoints.IPv6.services], ["default/web"]);
  assert.deepEqual(tracking.endpoints.IPv4.endpointsOf("default/web", "http", "tcp"), []);
});

Deno.test("a slice of either family is deleted", () => {
  const { tracking } = createSynced();
  tracking.set(endpointSlice("default/web-a", [endpoint("fd00::1")], { family: "IPv6" }));
  tracking.take();
  tracking.delete({ kind: "EndpointSlice", namespace: "default", name: "web-a" });
  assert.deepEqual([...tracking.take().endpoints.IPv6.services], ["default/web"]);
});

Deno.test("problems are passed on", () => {
  const { tracking, calls } = createTracked();
  tracking.problems("a", [{ code: "object-invalid", subject: "Service default/web", detail: "port 0 is no port" }]);
  assert.deepEqual(calls.problems, ["Service default/web: port 0 is no port"]);
});

Deno.test("service ranges combine all ServiceCIDRs, and only a difference is a change", () => {
  const { tracking, calls } = createSynced();
  const set = (name: string, ...cidrs: string[]) => tracking.set({ kind: "ServiceCIDR", name, cidrs });
  set("kubernetes", "10.96.0.0/16", "fd00:96::/112");
  set("more", "10.112.0.0/16", "10.96.0.0/16");
  assert.equal(calls.changes, 1);
  assert.equal(tracking.take().serviceRanges, true);
  const both = { IPv4: ["10.112.0.0/16", "10.96.0.0/16"], IPv6: ["fd00:96::/112"] };
  assert.deepEqual(tracking.serviceCIDRs.ranges(), both);
  // Another ServiceCIDR still has the removed range.
  set("kubernetes", "fd00:96::/112");
  assert.equal(tracking.take().serviceRanges, false);
  tracking.reset("ServiceCIDR");
  set("kubernetes", "fd00:96::/112");
  tracking.synced("ServiceCIDR");
  assert.equal(tracking.take().serviceRanges, true);
  assert.deepEqual(tracking.serviceCIDRs.ranges(), { IPv4: [], IPv6: ["fd00:96::/112"] });
});

Deno.test("external IPs are removed from services if they are disabled", () => {
  const given = { ...service("default/web"), externalIPs: ["192.0.2.1"] };
  for (const [externalIPs, kept] of [[undefined, ["192.0.2.1"]], [true, ["192.0.2.1"]], [false, []]] as const) {
    const { tracking } = createTracked(KINDS, { externalIPs });
    tracking.set(given);
    assert.deepEqual(tracking.services.get("default/web")?.externalIPs, kept);
  }
});

Deno.test("an endpoint that programs of this node alone may use is refused, whatever the source, with a problem", () => {
  const { tracking, calls } = createSynced();
  const targets = (family: "IPv4" | "IPv6") =>
    tracking.endpoints[family].endpointsOf("default/web", "http", "tcp").map(({ endpoint }) => endpoint.address);
  const set = (family: "IPv4" | "IPv6", ...addresses: string[]) =>
    tracking.set(endpointSlice("default/web-a", addresses.map((one) => endpoint(one)), { family }));

  set("IPv4", "0.0.0.0", "127.0.0.1", "127.9.9.9", "169.254.1.1", "224.0.0.5", "10.1.0.1", "0.0.0.1", "12.7.0.1");
  assert.deepEqual(targets("IPv4"), ["0.0.0.1", "10.1.0.1", "12.7.0.1"]);
  set("IPv6", "::", "::1", "fe80::1", "febf::1", "ff02::1", "ff12::1", "fd00::1", "fec0::1", "::1:1", "ff05::2");
  assert.deepEqual(targets("IPv6"), ["::1:1", "fd00::1", "fec0::1", "ff05::2"]);
  assert.match(
    calls.problems.at(-1)!,
    /EndpointSlice default\/web-a: .*endpoint address :: is unspecified, and 5 more/,
  );

  const refused = calls.problems.length;
  set("IPv6", "::1");
  assert.deepEqual([targets("IPv6"), calls.problems.length], [[], refused + 1]);
  set("IPv6", "fd00::1");
  assert.deepEqual([targets("IPv6"), calls.problems.length], [["fd00::1"], refused + 1]);
});

Deno.test("the problem of a refused endpoint ends with its slice", () => {
  const { tracking, calls } = createSynced();
  for (const end of ["delete", "reset"] as const) {
    const before = calls.problems.length;
    tracking.set(endpointSlice("default/web-a", [endpoint("127.0.0.1")]));
    if (end === "delete") tracking.delete({ kind: "EndpointSlice", namespace: "default", name: "web-a" });
    else {
      tracking.reset("EndpointSlice");
      tracking.synced("EndpointSlice");
    }
    tracking.set(endpointSlice("default/web-a", [endpoint("127.0.0.1")]));
    assert.equal(calls.problems.length, before + 2, end);
    tracking.delete({ kind: "EndpointSlice", namespace: "default", name: "web-a" });
  }
});
