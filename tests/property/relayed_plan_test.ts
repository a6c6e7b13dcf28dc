import assert from "node:assert/strict";
import fc from "fast-check";
import { type ClusterObject, KINDS } from "../../core/objects/cluster_object.ts";
import { createFamilyPlanner, createHealthCheckPlanner } from "../../core/planning/mod.ts";
import { createAnswers, type Position, type Subscription } from "../../kpng/server/answers.ts";
import { answerOf } from "../unit/kpng/server/served.ts";
import { createStore } from "../../kpng/store/mod.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { createFrameReader } from "../../kpng/transport/grpc.ts";
import { SYNC } from "../../kpng/views/operations.ts";
import { createReceiver } from "../../kpng/receiving/mod.ts";
import { FAMILIES } from "../../platform/address.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { anEvent, apply, type ClusterEvent } from "./cluster_events.ts";
import { sayProblems } from "../fakes/problems.ts";
import { runs } from "./runs.ts";

const NODE = "node-1";
const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));

/** The state after the deletion of a Node depends on whether it was seen before, which a relay may not have. */
function forgetsNode(event: ClusterEvent): boolean {
  return (event.type === "delete" && event.ref.kind === "Node") || (event.type === "relist" && event.kind === "Node");
}

/**
 * The event with addresses that no other slice has: a relay that merged the slices of a service no longer knows which of two
 * contradictory endpoints came first.
 */
function withOwnAddresses(event: ClusterEvent): ClusterEvent {
  const renumbered = (object: ClusterObject): ClusterObject => {
    if (object.kind !== "EndpointSlice") return object;
    const net = ["web-1", "web-2", "api-1"].indexOf(object.name);
    return {
      ...object,
      endpoints: object.endpoints.map((one) => ({ ...one, address: one.address.replace("10.1.0.", `10.1.${net}.`) })),
    };
  };
  if (event.type === "set") return { ...event, object: renumbered(event.object) };
  return event.type === "relist" ? { ...event, objects: event.objects.map(renumbered) } : event;
}

function tracking(clock: ReturnType<typeof createFakeClock>): Tracking {
  return createTracking({ kinds: KINDS, nodeName: NODE, bindAddress: "0.0.0.0", clock, onChange() {}, onProblems });
}

/** The complete plan of a node. */
function planOf(tracked: Tracking) {
  const changes = tracked.take();
  const ports = FAMILIES.flatMap((family) => [
    ...createFamilyPlanner({ family, nodeName: NODE, tracking: tracked, onProblems: () => {} }).plan({
      ...changes,
      services: new Set(tracked.services.keys()),
    }).set.values(),
  ]);
  const checks =
    createHealthCheckPlanner(NODE, tracked)({ ...changes, services: new Set(tracked.services.keys()) }).set;
  const byName = <T extends { readonly name: string }>(items: readonly T[]) =>
    items.toSorted((a, b) => a.name < b.name ? -1 : 1);
  return {
    ports: byName(ports),
    checks: byName(checks),
    ranges: tracked.serviceCIDRs.ranges(),
    node: tracked.node.state(),
  };
}

type SliceEndpoint = Extract<ClusterObject, { kind: "EndpointSlice" }>["endpoints"][number];

/** A service of this internal traffic policy with these endpoints, and the Node of its watcher. */
function serviceWith(internalPolicyLocal: boolean, endpoints: readonly Partial<SliceEndpoint>[]): ClusterEvent[] {
  return [
    {
      type: "set",
      object: {
        ...{ kind: "Service", namespace: "default", name: "api", type: "ClusterIP", clusterIPs: ["10.0.0.1"] },
        ...{ externalIPs: [], loadBalancerIPs: [], ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }] },
        ...{ affinitySeconds: 0, sourceRanges: [], internalPolicyLocal, externalPolicyLocal: false },
        ...{ healthCheckNodePort: 0, ignored: false },
      },
    },
    {
      type: "set",
      object: { kind: "Node", name: NODE, zone: "zone-b", addresses: [], podCIDRs: [], leaving: false },
    },
    {
      type: "set",
      object: {
        ...{ kind: "EndpointSlice", namespace: "default", name: "api-1", serviceName: "api", family: "IPv4" },
        triggerTimeMs: 0,
        ports: [{ name: "http", protocol: "tcp", port: 8081 }],
        endpoints: endpoints.map((one, i) => ({
          ...{ address: `10.1.0.${i + 1}`, ready: true, serving: true, terminating: false, nodeName: NODE, zone: "" },
          ...{ zoneHints: undefined, nodeHints: undefined, ...one },
        })),
      },
    },
  ];
}

/** Endpoints whose node hints are not followed, because one that this node does not use has none. */
const UNHINTED_ELSEWHERE = serviceWith(false, [
  { zoneHints: ["zone-a"], nodeHints: undefined },
  { zoneHints: ["zone-b"], nodeHints: [NODE] },
  { zoneHints: ["zone-b"], nodeHints: ["node-2"] },
]);

/** An endpoint on another node that could be a fallback there, so that this node drops packets instead of rejecting them. */
const TERMINATING_ELSEWHERE = serviceWith(true, [{ ready: false, terminating: true, nodeName: "node-2" }]);

for (const scope of ["global", "local"] as const) {
  Deno.test(`a node behind a server has the same plan as without it: ${scope} state`, () => {
    fc.assert(
      fc.property(fc.array(anEvent, { maxLength: 40 }), (events) => {
        const clock = createFakeClock();
        const direct = tracking(clock);
        const relayed = tracking(clock);
        const store = createStore({ clock, onProblems });
        const answers = createAnswers(store, clock);
        const receiver = createReceiver({ sink: relayed, nodeName: NODE, inFull: false });
        const subscription: Subscription = { scope, nodeName: NODE, extended: true, onlyNode: NODE };
        let position: Position | undefined;
        const relay = () => {
          const answer = answerOf(answers, position, subscription);
          position = answer.position;
          const frames = createFrameReader(1 << 20);
          for (const part of answer.parts) {
            for (let i = 0, chunk = part.at(i); chunk !== undefined; chunk = part.at(++i)) {
              for (const message of frames.push(chunk)) receiver.receive(message);
            }
          }
          receiver.receive(SYNC);
        };
        for (const sink of [store, direct]) for (const kind of KINDS) sink.synced(kind);
        for (const event of events) {
          if (event.type === "ask") relay();
          else if (!forgetsNode(event)) {
            for (const sink of [store, direct]) apply(sink, withOwnAddresses(event));
          }
        }
        relay();
        assert.deepEqual(planOf(relayed), planOf(direct));
      }),
      { ...runs(60), examples: [[UNHINTED_ELSEWHERE], [TERMINATING_ELSEWHERE]] },
    );
  });
}
