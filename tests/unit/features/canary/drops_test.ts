import assert from "node:assert/strict";
import type { RuleInTheWay, ServedAddresses } from "../../../../features/canary/path_findings.ts";
import type { Problem } from "../../../../core/problems/mod.ts";
import type { NodeFamily } from "../../../../features/contract.ts";
import { createDropJudge, watchDrops } from "../../../../features/canary/drops.ts";
import type { CanaryStatus } from "../../../../features/canary/state.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const MINUTE = 60_000;
const counted = (packets: number, detail = "rule a"): RuleInTheWay => ({ detail, packets });

Deno.test("a rule with a counter drops something if that grows between two looks, and for ten minutes after", () => {
  const judge = createDropJudge();
  assert.deepEqual(judge([counted(7)], 0), [], "of an unknown time");
  assert.deepEqual(judge([counted(7)], MINUTE), []);
  assert.deepEqual(judge([counted(8)], 2 * MINUTE), ["rule a"]);
  assert.deepEqual(judge([counted(8)], 11 * MINUTE), ["rule a"]);
  assert.deepEqual(judge([counted(8)], 12 * MINUTE), []);
  assert.deepEqual(judge([counted(1)], 13 * MINUTE), [], "the counter was set to 0");
  assert.deepEqual(judge([counted(1), counted(1, "rule b")], 14 * MINUTE), ["rule b"], "b had dropped nothing");
  assert.deepEqual(judge([], 15 * MINUTE), []);
});

Deno.test("a rule without a counter counts as long as it exists", () => {
  const judge = createDropJudge(), rule: RuleInTheWay = { detail: "rule a", packets: undefined };
  for (const minute of [0, 1, 100]) assert.deepEqual(judge([rule], minute * MINUTE), ["rule a"]);
  assert.deepEqual(judge([], 101 * MINUTE), []);
});

Deno.test("it looks while the canary answers, once a minute, and reports nothing while the canary fails", async () => {
  const clock = createFakeClock(undefined, promisesSettled), end = new AbortController();
  const reported: (readonly Problem[])[] = [], asked: ServedAddresses[] = [];
  let rules: readonly RuleInTheWay[] | undefined = [];
  const port = fakeServicePort("default/web", {
    ...{ clusterIP: "10.96.0.10", port: 80, nodePort: 30080, externalIPs: ["198.51.100.1"] },
    endpointsOnThisNode: ["10.244.1.11:8080", "192.0.2.10:6443"],
  });
  const node = featureNode({
    clock,
    signal: end.signal,
    tracking: { node: { state: () => ({ podCIDRs: { IPv4: "10.244.1.0/24" } }) } } as never,
    reportProblems: (_scope, problems) => void reported.push(problems),
  });
  const family = {
    family: "IPv4",
    ports: () => [{ planned: port }, { planned: undefined }],
    call(_call: unknown, request: ServedAddresses) {
      asked.push(request);
      return Promise.resolve(rules);
    },
  } as unknown as NodeFamily;
  const seen = watchDrops(node, family);
  const become = (state: CanaryStatus["state"]) => seen({ state } as CanaryStatus);
  become("waiting");
  await clock.advanceSettled(10 * MINUTE);
  assert.equal(asked.length, 0);
  become("answering");
  become("answering");
  await clock.advanceSettled(0);
  assert.deepEqual(asked, [{
    prefixes: ["10.244.1.0/24", "10.96.0.10/32", "198.51.100.1/32", "10.244.1.11/32"],
    ports: [80, 8080, 6443],
    nodePorts: [30080],
  }]);
  rules = [1, 2, 3, 4].map((i) => ({ detail: `rule ${i}`, packets: undefined }));
  await clock.advanceSettled(MINUTE);
  assert.deepEqual(reported.at(-1), [{
    code: "packets-dropped-by-others",
    subject: "IPv4",
    detail: "rule 1; rule 2; rule 3; and 1 other rule",
  }]);
  rules = undefined;
  await clock.advanceSettled(MINUTE);
  assert.equal(reported.length, 2, "a worker that does not answer changes nothing");
  become("failing");
  assert.deepEqual(reported.at(-1), []);
  await clock.advanceSettled(10 * MINUTE);
  assert.equal(asked.length, 3);
  become("answering");
  await clock.advanceSettled(0);
  assert.equal(asked.length, 4);
  end.abort();
  assert.deepEqual(clock.pending(), []);
});
