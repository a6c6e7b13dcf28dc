import assert from "node:assert/strict";
import type { LivePod, PodReport } from "../../../../core/objects/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createPodFollower } from "../../../../sources/kept/pods.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";

const pod = (name: string) => ({ namespace: "default", name, uid: `uid-${name}` });
const live = (name: string, address: string): LivePod => (
  { ...pod(name), isStatic: false, usesHostNetwork: false, addresses: [address] }
);
const slice = (name: string, address: string) =>
  endpointSlice(`default/${name}-1`, [{ ...endpoint(address, { nodeName: "here" }), pod: pod(name) }]);

const KEPT = [service("default/a"), slice("a", "10.1.0.1"), slice("b", "10.1.0.2")];

/** A follower, and what it has reported since the last call of `taken`. */
function follow() {
  const clock = createFakeClock(), reported: string[] = [];
  let report: ((report: PodReport) => void) | undefined;
  const follower = createPodFollower({
    watch: {
      ...{ endpoint: "/run/runtime.sock", end: () => Promise.resolve(), isEnded: () => false },
      follow(onReport) {
        report = onReport;
        return () => void reported.push("unfollowed");
      },
    },
    node: "here",
    onChange: (slices, { replaced, leftOut }) =>
      reported.push(
        `${slices.map(({ name, endpoints }) => `${name} ${endpoints[0]?.address}`)} ${replaced} ${leftOut}`,
      ),
    onProblems: (_, list) =>
      reported.push(`problems ${list.map(({ code, subject, detail }) => [code, subject, detail])}`),
    clock,
    logger: createLogger({
      ...{ level: "info", format: "text", clock },
      write: (line) => reported.push(line.slice(31).trimEnd()),
    }),
  });
  const addresses = () =>
    follower.start(KEPT).objects.map((one) => one.kind === "EndpointSlice" ? one.endpoints[0]?.address : one.kind);
  return { follower, clock, addresses, say: (given: PodReport) => report!(given), taken: () => reported.splice(0) };
}

Deno.test("kept endpoints have the addresses of their pods from the start, and follow them later", () => {
  const { addresses, say, taken, follower } = follow();
  say({ pods: [live("a", "10.1.0.9"), live("b", "10.1.0.2")] });
  assert.deepEqual(taken(), [], "nothing before its start");
  assert.deepEqual(addresses(), ["Service", "10.1.0.9", "10.1.0.2"]);
  const told = "kept endpoints of this node follow the pods of the container runtime";
  assert.deepEqual(taken(), ["problems ", `${told} replaced=1 leftOut=0 pods=2`]);
  say({ pods: [live("a", "10.1.0.9"), live("b", "10.1.0.2")] });
  assert.deepEqual(taken(), ["problems ", " 1 0"], "nothing has changed");
  say({ pods: [live("a", "10.1.0.9")] });
  assert.deepEqual(taken(), ["problems ", `${told} replaced=1 leftOut=1 pods=1`, "b-1 undefined 1 1"]);
  follower.stop();
  assert.deepEqual(taken(), ["unfollowed", "problems "]);
  say({ pods: [] });
  assert.deepEqual(taken(), [], "it has stopped");
});

Deno.test("while the runtime does not answer, endpoints keep the addresses that are known last", () => {
  const { addresses, say, taken } = follow();
  assert.deepEqual(addresses(), ["Service", "10.1.0.1", "10.1.0.2"]);
  say({ problem: "refused" });
  assert.deepEqual(taken(), ["problems ", "problems runtime-unreachable,/run/runtime.sock,refused"]);
  say({ pods: [live("a", "10.1.0.9"), live("b", "10.1.0.2")] });
  assert.deepEqual(taken().slice(-1), ["a-1 10.1.0.9 1 0"]);
  say({ problem: "refused" });
  assert.deepEqual(taken(), ["problems runtime-unreachable,/run/runtime.sock,refused", " 1 0"]);
});

Deno.test("the kept state waits for the first report of the runtime, but no longer than a quarter of a second", async () => {
  for (const given of [{ pods: [] }, { problem: "refused" }, undefined]) {
    const { follower, clock, say } = follow();
    let isHeard = false;
    const hearing = follower.heard().then(() => isHeard = true);
    clock.advance(249);
    await settled();
    assert.equal(isHeard, false);
    if (given === undefined) clock.advance(1);
    else say(given);
    await hearing;
    assert.deepEqual(clock.pending(), []);
  }
});
