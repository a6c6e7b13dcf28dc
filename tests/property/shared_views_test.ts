import assert from "node:assert/strict";
import fc from "fast-check";
import { KINDS } from "../../core/objects/cluster_object.ts";
import type { NodeContext } from "../../core/planning/endpoints.ts";
import { createLocalSnapshot } from "../../kpng/server/snapshots.ts";
import { OP_ITEM } from "../../kpng/messages/messages.ts";
import { createStore } from "../../kpng/store/mod.ts";
import { createFrameReader } from "../../kpng/transport/grpc.ts";
import { createLocalView, createLocalViews } from "../../kpng/views/local_view.ts";
import { difference, everythingOf } from "../../kpng/views/operations.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../fakes/cluster_objects.ts";
import { sayProblems } from "../fakes/problems.ts";
import { runs } from "./runs.ts";

const NODES: readonly NodeContext[] = ["node-1", "node-2", "node-without-endpoints", ""].flatMap((name) =>
  ["", "zone-a", "zone-b"].map((zone) => ({ name, zone }))
);

/** Rare things are rare, so that nodes have something in common. */
const rarely = <T>(usual: T, ...others: T[]) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) });

const anEndpoint = fc.record({
  nodeName: fc.constantFrom("node-1", "node-2", "node-3", ""),
  ready: rarely(true, false),
  serving: rarely(true, false),
  terminating: rarely(false, true),
  zone: fc.constantFrom("zone-a", "zone-b"),
  zoneHints: fc.constantFrom(["zone-a"], ["zone-b"], []),
  nodeHints: fc.constantFrom(["node-1"], ["node-2"], []),
  details: fc.constantFrom(undefined, { podName: "web-1", hostname: "" }, { podName: "web-2", hostname: "" }),
});

const aService = fc.record({
  endpoints: fc.array(anEndpoint, { maxLength: 6 }),
  isDualStack: fc.boolean(),
  triggerTimeMs: fc.constantFrom(0, 1000),
  fields: fc.record({
    internalPolicyLocal: rarely(false, true),
    externalPolicyLocal: rarely(false, true),
    ignored: rarely(false, true),
    type: fc.constantFrom("ClusterIP" as const, "LoadBalancer" as const),
    loadBalancerIPs: fc.constantFrom([], ["198.51.100.1"]),
  }),
  isKnown: rarely(true, false),
  // Hints are followed only if every ready endpoint has one.
  hints: fc.constantFrom("none", "none", "none", "zones", "nodes", "mixed"),
  hasUdp: fc.boolean(),
});

type RandomService = typeof aService extends fc.Arbitrary<infer T> ? T : never;

/** A service of which each zone receives another endpoint. */
const HINTED: RandomService = {
  endpoints: (["zone-a", "zone-b"] as const).map((zone) => ({
    ...{ nodeName: "node-1", ready: true, serving: true, terminating: false, zone, zoneHints: [zone], nodeHints: [] },
    details: undefined,
  })),
  fields: {
    ...{ internalPolicyLocal: false, externalPolicyLocal: false, ignored: false, type: "ClusterIP" },
    loadBalancerIPs: [],
  },
  ...{ isDualStack: false, triggerTimeMs: 0, isKnown: true, hints: "zones", hasUdp: false },
};

/** Copies of services, for several blocks. */
function clusterOf(services: readonly RandomService[], copies: number) {
  const clock = createFakeClock();
  const store = createStore({
    clock,
    onProblems: sayProblems((where, message) => assert.fail(`${where}: ${message}`)),
  });
  for (const kind of KINDS) store.synced(kind);
  for (let i = 0; i < services.length * copies; i++) {
    const { endpoints, isDualStack, triggerTimeMs, fields, isKnown, hints, hasUdp } = services[i % services.length]!;
    const ports = [
      { name: "http", protocol: "tcp" as const, port: 80, nodePort: 0 },
      ...hasUdp ? [{ name: "dns", protocol: "udp" as const, port: 53, nodePort: 0 }] : [],
    ];
    if (isKnown) store.set(service(`default/s${i}`, { ...fields, ports }));
    for (const family of isDualStack ? [6, 4] as const : [4] as const) {
      const prefix = family === 4 ? `10.${i >> 8}.${i & 255}.` : `fd00::${i.toString(16)}:`;
      store.set(endpointSlice(
        `default/s${i}-${family}`,
        endpoints.map(({ zoneHints, nodeHints, ...fields }, n) =>
          endpoint(`${prefix}${n + 1}`, {
            ...fields,
            zoneHints: hints === "zones" || hints === "mixed" && n === 0 ? zoneHints : undefined,
            nodeHints: hints === "nodes" || hints === "mixed" && n === 0 ? nodeHints : undefined,
          })
        ),
        { family: family === 4 ? "IPv4" : "IPv6", serviceName: `s${i}`, triggerTimeMs, ports },
      ));
    }
  }
  return store.state();
}

for (const extended of [true, false]) {
  const kind = extended ? "of a Sluice" : "of a KPNG program";
  Deno.test(`a view that shares encoded data equals the node's own: ${kind}`, () => {
    fc.assert(
      fc.property(fc.array(aService, { minLength: 1, maxLength: 6 }), (services) => {
        const views = createLocalViews(extended);
        for (const state of clusterOf(services, 1).services) {
          for (const node of NODES) {
            const shared = views.of(node), own = createLocalView({ extended, node });
            assert.deepEqual(shared.service(state), own.service(state));
            assert.deepEqual(shared.endpoints(state, undefined), own.endpoints(state, undefined));
          }
        }
      }),
      runs(60),
    );
  });

  Deno.test(`a snapshot of shared blocks has what the node's own view has: ${kind}`, () => {
    fc.assert(
      fc.property(fc.array(aService, { minLength: 1, maxLength: 6 }), (services) => {
        const state = clusterOf([...services, HINTED], 60);
        const snapshot = createLocalSnapshot(state, createLocalViews(extended));
        for (const node of NODES) {
          const frames = createFrameReader(1 << 20);
          const received: Uint8Array<ArrayBuffer>[] = [];
          for (const part of snapshot.partsFor(node)) {
            for (let i = 0, chunk = part.at(i); chunk !== undefined; chunk = part.at(++i)) {
              received.push(...frames.push(chunk));
            }
          }
          const own = difference({ ...everythingOf(state), scoped: [] }, createLocalView({ extended, node }));
          assert.deepEqual(received.map(String).toSorted(), [...own].map(String).toSorted());
          const sets = received.map((bytes) => OP_ITEM.decode(bytes).set!.ref!.set!);
          assert.deepEqual(sets, sets.toSorted((a, b) => a - b), "services come before endpoints");
        }
      }),
      runs(1),
    );
  });
}
