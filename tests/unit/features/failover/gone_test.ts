import assert from "node:assert/strict";
import type { EndpointSlice, SliceEndpoint } from "../../../../core/objects/mod.ts";
import { createEndpointsTracker } from "../../../../core/tracking/endpoints_tracker.ts";
import { servicePortKey } from "../../../../core/model/mod.ts";
import { watchGone } from "../../../../features/failover/gone.ts";
import type { NodeFamily } from "../../../../features/contract.ts";
import { endpoint, endpointSlice, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const A = "10.1.0.1", B = "10.1.0.2", C = "10.1.0.3";
const ready = (address: string) => endpoint(address);
const unready = (address: string) => endpoint(address, { ready: false, serving: false });
const terminating = (address: string) => terminatingEndpoint(address);
const readyAndTerminating = (address: string) => endpoint(address, { terminating: true });

/** A slice of the service before the dash in its name, in namespace `default` unless it names another. */
const slice = (name: string, endpoints: readonly SliceEndpoint[], port = 8080) =>
  endpointSlice(name.includes("/") ? name : `default/${name}`, endpoints, {
    ports: [{ name: "http", protocol: "tcp", port }, { name: "dns", protocol: "udp", port: 53 }],
  });

const SERVICES: Readonly<Record<string, string>> = {
  "default/web": "10.96.0.1",
  "default/other": "10.96.0.2",
  "tenant/web": "10.96.0.3",
};

function watching() {
  const clock = createFakeClock(), tracker = createEndpointsTracker(0), end = new AbortController();
  const unplanned = new Set<string>(), stuck = new Set<string>();
  let stalledMs = 0, isInEffect = true, looks = 0, slicesRead = 0;
  const found: string[] = [];
  const family: Pick<NodeFamily, "family" | "portsOf" | "nodePortAddresses" | "call"> = {
    family: "IPv4",
    portsOf(service) {
      const clusterIP = SERVICES[service], name = `${service}:http`;
      if (clusterIP === undefined || unplanned.has(service)) return [];
      const planned = fakeServicePort(name, { clusterIP });
      const key = servicePortKey(name, "tcp");
      return [{ key, service, wanted: planned, planned, reported: [], createdSeconds: undefined, plannedIn: 1 }];
    },
    nodePortAddresses: () => [],
    call(_, request) {
      for (const { endpoint, frontends } of request as never as readonly { endpoint: string; frontends: string[] }[]) {
        found.push(...frontends.map((frontend) => `${frontend} to ${endpoint}`));
      }
      return Promise.resolve(undefined);
    },
  };
  const effect = (name: string) => ({ state: isInEffect && !stuck.has(name) ? "in effect" : "waiting" });
  const planned = watchGone(
    {
      ...{ clock: { ...clock, monotonic: () => clock.monotonic() + stalledMs }, signal: end.signal },
      ...{ ledgers: { IPv4: { effect } } as never, logger: silentLogger },
    },
    family,
    {
      slicesOf(service) {
        slicesRead++;
        return tracker.slicesOf(service);
      },
      values() {
        looks++;
        return tracker.values();
      },
    },
  );
  const set = (...slices: readonly (EndpointSlice | string)[]) => {
    for (const one of slices) {
      if (typeof one === "string") tracker.delete(one);
      else tracker.set(`${one.namespace}/${one.name}`, one);
    }
  };
  const plan = (...reselected: readonly string[]) =>
    planned({ endpoints: { IPv4: tracker.take() } as never, reselected: new Set(reselected) });
  return {
    ...{ clock, end, unplanned, stuck, found, set, plan },
    change(...slices: readonly (EndpointSlice | string)[]) {
      set(...slices);
      plan();
    },
    looks: () => looks,
    slicesRead: () => slicesRead,
    /** Lets time pass in which no timer fires. */
    stall: (ms: number) => stalledMs += ms,
    setInEffect: (value: boolean) => isInEffect = value,
    /** The connections reset within a second from now. */
    reset(): readonly string[] {
      clock.advance(500);
      clock.advance(500);
      return found.splice(0).sort();
    },
  };
}

const WEB_A = "10.96.0.1:80 to 10.1.0.1:8080", OTHER_A = "10.96.0.2:80 to 10.1.0.1:8080";

/** Versions of slices, one after the other, and the connections that are reset once nothing changes any more. */
const EVIDENCE: readonly (readonly [string, readonly (readonly (EndpointSlice | string)[])[], readonly string[]])[] = [
  ["a terminating endpoint leaves", [[slice("web-a", [terminating(A), ready(B)])], [slice("web-a", [ready(B)])]], [
    WEB_A,
  ]],
  ["a terminating endpoint whose service publishes unready addresses leaves", [
    [slice("web-a", [readyAndTerminating(A)])],
    [slice("web-a", [])],
  ], [WEB_A]],
  ["a terminating endpoint leaves with its slice", [[slice("web-a", [terminating(A)])], ["default/web-a"]], [WEB_A]],
  ["a terminating endpoint no longer serves", [
    [slice("web-a", [terminating(A)])],
    [slice("web-a", [endpoint(A, { ready: false, serving: false, terminating: true })])],
  ], []],
  ["a ready endpoint leaves", [[slice("web-a", [ready(A), ready(B)])], [slice("web-a", [ready(B)])]], []],
  ["an endpoint that is not ready leaves", [[slice("web-a", [unready(A)])], [slice("web-a", [])]], []],
  ["ready endpoints leave with their slice", [[slice("web-a", [ready(A)])], ["default/web-a"]], []],
  ["another selector", [[slice("web-a", [ready(A), ready(B)])], [slice("web-a", [ready(C)])]], []],
  ["another port", [[slice("web-a", [terminating(A)])], [slice("web-a", [terminating(A)], 8081)]], []],
  ["it stays in a headless service", [
    [slice("web-a", [terminating(A)]), slice("headless-a", [terminating(A)], 9090)],
    [slice("web-a", [])],
  ], []],
  ["it stays in a slice of another namespace", [
    [slice("web-a", [terminating(A)]), slice("tenant/web-a", [ready(A)])],
    [slice("web-a", [])],
  ], []],
  ["it leaves two services at once", [
    [slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)])],
    [slice("web-a", []), slice("other-a", [])],
  ], [WEB_A, OTHER_A]],
  ["it leaves two services one after the other", [
    [slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)])],
    [slice("web-a", [])],
    [slice("other-a", [])],
  ], [WEB_A, OTHER_A]],
  ["it leaves another service as a ready one", [
    [slice("web-a", [terminating(A)]), slice("other-a", [ready(A)])],
    [slice("web-a", [])],
    [slice("other-a", [])],
  ], [WEB_A]],
  ["a tenant adds and deletes another's endpoint", [
    [slice("tenant/web-a", [terminating(A)]), slice("web-a", [ready(A)])],
    [slice("tenant/web-a", [])],
    [slice("web-a", [])],
  ], ["10.96.0.3:80 to 10.1.0.1:8080"]],
  ["a new pod of the service had its address in between", [
    [slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)])],
    [slice("web-a", [])],
    [slice("web-b", [ready(A)])],
    [slice("other-a", [])],
    [slice("web-b", [])],
  ], [OTHER_A]],
  ["a new pod of one of its services had its address in between", [
    [slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)]), slice("headless-a", [ready(A)])],
    [slice("web-a", []), slice("other-a", [])],
    [slice("web-b", [ready(A)])],
    [slice("web-b", []), slice("headless-a", [])],
  ], [OTHER_A]],
  ["a new pod of the service has its address before it leaves", [
    [slice("web-a", [terminating(A)]), slice("web-b", [ready(A)])],
    [slice("web-a", [])],
    [slice("web-b", [])],
  ], []],
  ["a new pod takes its address in the same change", [
    [slice("web-a", [terminating(A)])],
    [slice("web-a", []), slice("other-a", [ready(A)])],
  ], []],
];

for (const [name, versions, expected] of EVIDENCE) {
  Deno.test(`${name}: ${expected.length === 0 ? "nothing is reset" : "its connections are reset"}`, () => {
    for (const pauseMs of [100, 30_000]) {
      const { clock, change, reset } = watching();
      for (const version of versions) {
        change(...version);
        clock.advance(pauseMs);
      }
      const found = [...reset(), ...reset()];
      assert.deepEqual(found.sort(), expected, `${pauseMs} ms between changes`);
    }
  });
}

Deno.test("versions of a slice that arrive together are seen one by one", () => {
  const { set, plan, reset } = watching();
  set(slice("web-a", [ready(A)]));
  plan();
  set(slice("web-a", [terminating(A)]));
  set(slice("web-a", []));
  plan();
  assert.deepEqual(reset(), [WEB_A]);
});

Deno.test("an endpoint that a controller moves to another slice is not dead in between, however often", () => {
  const { clock, change, reset } = watching();
  change(slice("web-a", [terminating(A), terminating(B)]), slice("web-b", []));
  for (const [from, to] of [["web-a", "web-b"], ["web-b", "web-a"]] as const) {
    change(slice(from, [terminating(B)]));
    clock.advance(400);
    change(slice(to, [terminating(A)]));
    assert.deepEqual(reset(), []);
    change(slice(from, []), slice(to, [terminating(A), terminating(B)]));
    assert.deepEqual(reset(), []);
  }
});

Deno.test("each endpoint has half a second to appear in another slice, whatever left before it", () => {
  const { clock, change, found } = watching();
  change(slice("web-a", [terminating(A)]), slice("web-b", [terminating(B)]));
  change(slice("web-a", []));
  clock.advance(400);
  change(slice("web-b", []));
  clock.advance(100);
  assert.deepEqual(found, [WEB_A]);
  change(slice("web-b", [terminating(B)]));
  clock.advance(10_000);
  assert.deepEqual(found, [WEB_A]);
});

Deno.test("all slices are looked at once a second, after an endpoint has left while it was terminating", () => {
  const { clock, change, looks, found } = watching();
  change(slice("web-a", [ready(A), ready(B)]));
  change(slice("web-a", [ready(B)]));
  clock.advance(60_000);
  assert.equal(looks(), 0);
  change(slice("web-a", Array.from({ length: 50 }, (_, i) => terminating(`10.2.0.${i}`))));
  for (let left = 49; left >= 0; left--) {
    change(slice("web-a", Array.from({ length: left }, (_, i) => terminating(`10.2.0.${i}`))));
    clock.advance(100);
  }
  clock.advance(10_000);
  assert.equal(found.length, 50);
  assert.ok(looks() <= 6, `${looks()} looks`);
});

Deno.test("a round reads the slices of a service once, however many terminating endpoints it loses", () => {
  const { change, slicesRead } = watching();
  change(slice("web-a", many(1_000)), slice("web-b", many(1_000)));
  change(slice("web-a", []), slice("web-b", []));
  assert.equal(slicesRead(), 1);
});

Deno.test("a timer that ends early costs no second look", () => {
  const { clock, stall, change, found } = watching();
  change(slice("web-a", [terminating(A)]));
  change(slice("web-a", []));
  stall(-0.5);
  clock.advance(500);
  assert.deepEqual(found, [WEB_A]);
});

Deno.test("after a pause of the process, the events that waited come first", () => {
  const { clock, stall, change, found } = watching();
  change(slice("web-a", [terminating(A), terminating(B)]));
  change(slice("web-a", []));
  stall(5_000);
  clock.advance(500);
  change(slice("web-b", [terminating(A)]));
  clock.advance(1_000);
  assert.deepEqual(found, ["10.96.0.1:80 to 10.1.0.2:8080"]);
});

Deno.test("nothing is reset before the kernel sends the endpoint no new connections", () => {
  const { clock, change, found, setInEffect } = watching();
  change(slice("web-a", [terminating(A)]));
  setInEffect(false);
  change(slice("web-a", []));
  clock.advance(5_000);
  assert.deepEqual(found, []);
  setInEffect(true);
  clock.advance(1_000);
  assert.deepEqual(found, [WEB_A]);
});

Deno.test("a service port that is not in effect delays no reset through another", () => {
  const { change, reset, stuck } = watching();
  stuck.add("default/web:http");
  change(slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)]));
  change(slice("web-a", []), slice("other-a", []));
  assert.deepEqual(reset(), [OTHER_A]);
  assert.deepEqual(reset(), []);
  stuck.clear();
  assert.deepEqual(reset(), [WEB_A]);
});

Deno.test("a service that is deleted, or has become headless, is none of the frontends", () => {
  const { change, reset, unplanned } = watching();
  change(slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)]));
  unplanned.add("default/web");
  change("default/web-a", slice("other-a", []));
  assert.deepEqual(reset(), [OTHER_A]);
});

Deno.test("a pod that is shutting down when its service gets another selector lives on", () => {
  const without = [slice("web-a", []), slice("other-a", [])];
  for (const order of ["selector first", "slices first", "in one round", "two minutes later"]) {
    const { clock, change, set, plan, reset } = watching();
    change(slice("web-a", [terminating(A)]), slice("other-a", [terminating(A)]));
    if (order === "slices first") change(...without);
    else if (order === "in one round") set(...without);
    plan("default/web");
    clock.advance(order === "two minutes later" ? 120_000 : 100);
    change(...without);
    assert.deepEqual(reset(), order === "two minutes later" ? [WEB_A, OTHER_A] : [OTHER_A], order);
  }
});

Deno.test("an address is remembered for a limited time", () => {
  const { clock, change, reset } = watching();
  change(slice("web-a", [terminating(A)]), slice("other-a", [ready(A)]));
  change(slice("web-a", []));
  clock.advance(601_000);
  change(slice("other-a", []));
  assert.deepEqual(reset(), []);
});

/** A number of terminating endpoints. */
const many = (count: number) =>
  Array.from({ length: count }, (_, i) => terminating(`10.${2 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`));

Deno.test("a namespace that loses very many endpoints leaves room for those of others", () => {
  const { clock, change, reset } = watching();
  const lose = (name: string, count: number) => {
    change(slice(name, many(count)));
    change(slice(name, []));
  };
  const counts = () => {
    const found = reset(), from = (address: string) => found.filter((one) => one.startsWith(`${address}:`)).length;
    return { tenant: from("10.96.0.3"), default: from("10.96.0.1") };
  };
  // Remembered, as another service keeps them.
  change(slice("other-a", many(15_000).map(({ address }) => ready(address))));
  lose("tenant/web-a", 15_000);
  lose("web-a", 100);
  change("default/other-a");
  assert.deepEqual(counts(), { tenant: 9_950, default: 100 }, "half of what others leave");
  // In the kernel.
  lose("tenant/web-a", 1);
  lose("web-a", 100);
  assert.deepEqual(counts(), { tenant: 0, default: 100 });
  clock.advance(360_000);
  lose("tenant/web-a", 1);
  assert.deepEqual(counts(), { tenant: 1, default: 0 });
  clock.advance(360_000);
  lose("tenant/web-a", 15_000);
  assert.deepEqual(counts(), { tenant: 10_000, default: 0 }, "what it held before does not count");
});

Deno.test("a namespace that names another's endpoint on very many ports takes no room from it", () => {
  const { change, reset } = watching();
  const ports = Array.from({ length: 15_000 }, (_, i) => ({ name: `p${i}`, protocol: "tcp", port: i + 1 } as const));
  change({ ...slice("tenant/web-a", [terminating(A)]), ports }, slice("web-a", [terminating(A)]));
  change(slice("tenant/web-a", []));
  change(slice("web-a", []));
  assert.deepEqual(reset(), [WEB_A]);
});

Deno.test("nothing is reported after the end", () => {
  const { end, change, reset } = watching();
  change(slice("web-a", [terminating(A)]));
  change(slice("web-a", []));
  end.abort();
  assert.deepEqual(reset(), []);
});
