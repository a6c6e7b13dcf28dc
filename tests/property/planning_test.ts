import assert from "node:assert/strict";
import fc from "fast-check";
import type { HealthCheck, PlanChanges } from "../../core/planning/mod.ts";
import { createFamilyPlanner, createHealthCheckPlanner } from "../../core/planning/mod.ts";
import { type ClusterObject, type Kind, KINDS, refOf } from "../../core/objects/cluster_object.ts";
import { type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { FAMILIES } from "../../platform/address.ts";
import { endpoint, endpointSlice, node, service } from "../fakes/cluster_objects.ts";
import { fakeTracking } from "../fakes/tracking.ts";
import { runs } from "./runs.ts";

type Event =
  | { readonly does: "set" | "delete"; readonly object: ClusterObject }
  | { readonly does: "relist"; readonly kind: Kind; readonly takesBetween: boolean }
  | { readonly does: "take" };

// Few names, addresses and ports, so that the same objects change repeatedly and conflict.
const few = <const T>(...values: readonly T[]) => fc.constantFrom(...values);

const services: fc.Arbitrary<ClusterObject> = fc.record({
  at: few("default/a", "default/b", "other/a"),
  fields: fc.record({
    type: few("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    clusterIPs: few(["10.0.0.1"], ["10.0.0.2"], ["fd00::1"], ["10.0.0.3", "fd00::2"], ["fd00::2", "10.0.0.1"], []),
    externalIPs: few([], ["192.0.2.1"], ["10.0.0.1"], ["192.0.2.1", "192.0.2.2", "fd00::1"]),
    loadBalancerIPs: few([], ["192.0.2.2"], ["2001:db8::1"]),
    ports: fc.array(
      fc.record({ name: few("", "x"), protocol: few("tcp", "udp"), port: few(80, 81), nodePort: few(0, 30080) }),
      { minLength: 1, maxLength: 2 },
    ),
    internalPolicyLocal: fc.boolean(),
    externalPolicyLocal: fc.boolean(),
    sourceRanges: few([], ["203.0.113.0/24"]),
    healthCheckNodePort: few(0, 32000),
    ignored: few(false, false, false, true),
  }),
}).map(({ at, fields }) => service(at, fields));

const slices: fc.Arbitrary<ClusterObject> = fc.record({
  at: few("default/a-1", "default/a-2", "default/b-1", "other/a-1"),
  family: few(...FAMILIES),
  endpoints: fc.array(
    fc.record({
      host: few(1, 2, 3),
      state: few(
        {},
        { ready: false, serving: true, terminating: true },
        { ready: false, serving: false, terminating: false },
      ),
      nodeName: few("", "here", "other"),
      hints: few({}, { zoneHints: ["a"] }, { zoneHints: ["b"], nodeHints: ["here"] }, { nodeHints: ["other"] }),
    }),
    { maxLength: 4 },
  ),
  ports: few([{ name: "", protocol: "tcp", port: 8080 }], [
    { name: "x", protocol: "udp", port: 53 },
    { name: "x", protocol: "tcp", port: 53 },
  ]),
  serviceName: few("a", "a", "b"),
}).map(({ at, family, endpoints, ports, serviceName }) =>
  endpointSlice(
    at,
    endpoints.map(({ host, state, nodeName, hints }) =>
      endpoint(`${family === "IPv4" ? "10.1.0." : "fd00:1::"}${host}`, { ...state, ...hints, nodeName })
    ),
    { family, serviceName, ports },
  )
);

const nodes: fc.Arbitrary<ClusterObject> = few("", "a", "b").map((zone) => node("here", { zone }));

const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.oneof(services, slices, nodes).map((object): Event => ({ does: "set", object })) },
  // The Node is never deleted: the state after that depends on its history.
  { weight: 2, arbitrary: fc.oneof(services, slices).map((object): Event => ({ does: "delete", object })) },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constant("relist" as const), kind: few(...KINDS), takesBetween: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.constant<Event>({ does: "take" }) },
);

/** Trackers and planners, with the accumulated plan. */
function createGathering() {
  const tracking = fakeTracking();
  const planners = FAMILIES.map((family) =>
    createFamilyPlanner({ family, nodeName: "here", tracking, onProblems: () => {} })
  );
  const healthChecks = createHealthCheckPlanner("here", tracking);
  const ports = FAMILIES.map(() => new Map<string, ServicePort>());
  const checks = new Map<string, HealthCheck>();

  const gather = ({ set, deleted }: PlanChanges, into: Map<string, ServicePort>) => {
    for (const key of deleted) assert.ok(into.delete(key), `${key} was planned before it is deleted`);
    for (const [key, port] of set) {
      assert.equal(key, servicePortKey(port.name, port.protocol));
      assert.notDeepEqual(into.get(key), port, `${key} is reported only if it has changed`);
      into.set(key, port);
    }
  };

  return {
    tracking,
    take() {
      const changes = tracking.take();
      planners.forEach((planner, i) => gather(planner.plan(changes), ports[i]!));
      const { set, deleted } = healthChecks(changes);
      for (const key of deleted) checks.delete(key);
      for (const check of set) checks.set(`${check.namespace}/${check.name}`, check);
    },
    result: () => ({
      ports: ports.map((planned) => sorted(planned)),
      checks: sorted(checks),
      noLocalEndpoints: planners.map((planner) => planner.noLocalEndpoints()),
    }),
  };
}

function sorted<T>(map: ReadonlyMap<string, T>): [string, T][] {
  return [...map].sort(([a], [b]) => a < b ? -1 : 1);
}

const idOf = (object: ClusterObject) => JSON.stringify(refOf(object));

Deno.test("any history of events ends in the plan of its final objects", () => {
  fc.assert(
    fc.property(fc.array(events, { maxLength: 60 }), (history) => {
      const lived = createGathering();
      const there = new Map<string, ClusterObject>();
      for (const event of history) {
        if (event.does === "set") {
          lived.tracking.set(event.object);
          there.set(idOf(event.object), event.object);
        } else if (event.does === "delete") {
          lived.tracking.delete(refOf(event.object));
          there.delete(idOf(event.object));
        } else if (event.does === "relist") {
          lived.tracking.reset(event.kind);
          for (const object of there.values()) if (object.kind === event.kind) lived.tracking.set(object);
          if (event.takesBetween) lived.take();
          lived.tracking.synced(event.kind);
        } else {
          lived.take();
        }
      }
      lived.take();

      const fresh = createGathering();
      for (const object of [...there.values()].reverse()) fresh.tracking.set(object);
      fresh.take();
      assert.deepEqual(lived.result(), fresh.result());
    }),
    runs(400),
  );
});

Deno.test("no frontend is planned twice", () => {
  fc.assert(
    fc.property(fc.array(services, { maxLength: 12 }), (objects) => {
      const planned = createGathering();
      for (const object of objects) planned.tracking.set(object);
      planned.take();
      for (const family of planned.result().ports) {
        const frontends = family.flatMap(([, port]) => [
          ...[port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs].map((ip) =>
            `${ip} ${port.port} ${port.protocol}`
          ),
          ...port.nodePort === 0 ? [] : [`${port.nodePort} ${port.protocol}`],
        ]);
        assert.equal(new Set(frontends).size, frontends.length, frontends.join(", "));
      }
    }),
    runs(200),
  );
});
