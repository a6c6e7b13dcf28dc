import assert from "node:assert/strict";
import fc from "fast-check";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { createFamilyPlanner, createHealthCheckPlanner } from "../../core/planning/mod.ts";
import { createAnswers, type Position, type Subscription } from "../../kpng/server/answers.ts";
import { createStore } from "../../kpng/store/store.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { createFrameReader } from "../../kpng/transport/frames.ts";
import { SYNC } from "../../kpng/views/operations.ts";
import { createReceiver } from "../../kpng/receiving/receive.ts";
import { FAMILIES } from "../../platform/address.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { anEvent, type ClusterEvent, tell } from "./cluster_events.ts";
import { sayProblems } from "../fakes/problems.ts";

const NODE = "node-1";
const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));

/** The state after the deletion of a Node depends on whether it was seen before, which a relay may not have. */
function forgetsNode(event: ClusterEvent): boolean {
  return (event.type === "delete" && event.ref.kind === "Node") || (event.type === "relist" && event.kind === "Node");
}

function tracking(clock: ReturnType<typeof createFakeClock>): Tracking {
  return createTracking({ kinds: KINDS, nodeName: NODE, bindAddress: "0.0.0.0", clock, onChange() {}, onProblems });
}

/** The complete plan of a node. */
function planOf(tracked: Tracking) {
  const changes = tracked.take();
  const ports = FAMILIES.flatMap((family) =>
    createFamilyPlanner({ family, nodeName: NODE, tracking: tracked, onProblems: () => {} }).plan({
      ...changes,
      services: new Set(tracked.services.keys()),
    }).set
  );
  const checks = createHealthCheckPlanner({ nodeName: NODE, tracking: tracked })
    .plan({ ...changes, services: new Set(tracked.services.keys()) }).set;
  const byName = <T extends { readonly name: string }>(items: readonly T[]) =>
    items.toSorted((a, b) => a.name < b.name ? -1 : 1);
  return {
    ports: byName(ports),
    checks: byName(checks),
    ranges: tracked.serviceCIDRs.ranges(),
    node: tracked.node.state(),
  };
}

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
          const answer = answers.since(position, subscription);
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
          else if (!forgetsNode(event)) { for (const sink of [store, direct]) tell(sink, event); }
        }
        relay();
        assert.deepEqual(planOf(relayed), planOf(direct));
      }),
      { numRuns: 300 },
    );
  });
}
