import assert from "node:assert/strict";
import type { Problem } from "../../../../core/problems/mod.ts";
import type { ApiWrite } from "../../../../core/objects/mod.ts";
import type { Node, RunningFeature } from "../../../../features/contract.ts";
import { start } from "../../../../features/node_condition/start.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { featureNode } from "../../../fakes/feature_node.ts";

type Health = ReturnType<Node["health"]["status"]>;

const READY: Health = { healthy: true, inEffect: true };
const STARTING: Health = { healthy: true, inEffect: false };

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastHeartbeatTime: string;
  readonly lastTransitionTime: string;
}

async function setUp(test: (t: ReturnType<typeof createHarness>) => Promise<void>): Promise<void> {
  const t = createHarness();
  try {
    await test(t);
  } finally {
    t.end.abort();
  }
}

function createHarness() {
  const clock = createFakeClock(undefined, promisesSettled);
  const end = new AbortController();
  const requests: ApiWrite[] = [];
  const problems: Problem[][] = [];
  const t = {
    clock,
    end,
    requests,
    problems,
    health: STARTING,
    error: undefined as Error | undefined,
    isForbidden: false,
    uid: "first" as string | undefined,
    /** The Node that the API server has. */
    node: {} as unknown,
    conditions: () =>
      requests.map(({ object }) => (object as { status: { conditions: [Condition] } }).status.conditions[0]),
    says: () => t.conditions().map(({ status, reason }) => `${status} ${reason}`),
    isReadable: true,
    feature: undefined as RunningFeature | undefined,
    start: async () =>
      t.feature = await start(featureNode({
        name: "node-1",
        tracking: { node: { uid: () => t.uid } } as Node["tracking"],
        health: { setPackets() {}, status: () => t.health },
        api: {
          readNode: () =>
            t.error || !t.isReadable ? Promise.reject(t.error ?? new Error("forbidden")) : Promise.resolve(t.node),
          send(request) {
            if (t.error) return Promise.reject(t.error);
            requests.push(request);
            return Promise.resolve();
          },
          isRefusal: () => t.isForbidden,
        },
        reportProblems: (_scope, list) => void problems.push([...list]),
        clock,
        signal: end.signal,
      })),
  };
  return t;
}

Deno.test("the condition follows the proxy's health", async () => {
  const table: readonly [Health, string][] = [
    [STARTING, "False Starting"],
    [READY, "True ServicesInEffect"],
    [{ ...READY, healthy: false }, "False ChangesOverdue"],
    [{ ...READY, failure: "nft is missing" }, "False SyncFailed"],
    [{ ...READY, healthy: false, failure: "nft is missing" }, "False SyncFailed"],
    [{ ...READY, packets: { flow: true } }, "True ServicesInEffect"],
    [{ ...READY, packets: { flow: undefined } }, "False CanaryNotTried"],
    [{ ...READY, packets: { flow: false, reason: "why" } }, "False PacketsNotFlowing"],
    [{ ...READY, healthy: false, packets: { flow: false } }, "False PacketsNotFlowing"],
  ];
  for (const [health, expected] of table) {
    await setUp(async (t) => {
      t.health = health;
      t.start();
      await t.clock.advanceSettled(3000);
      assert.deepEqual(t.says(), [expected]);
      assert.notEqual(t.conditions()[0]!.message, "");
    });
  }
});

Deno.test("the status shows the condition once it is written, with the message unless it is True", () =>
  setUp(async (t) => {
    const shown = () => {
      const { tone, words, reason } = t.feature!.status!()!;
      return [tone, words, reason];
    };
    await t.start();
    assert.deepEqual(shown(), ["warning", "ServiceProxyReady is not written yet", undefined]);
    t.health = READY;
    await t.clock.advanceSettled(1000);
    assert.deepEqual(shown(), ["good", "ServiceProxyReady is True (ServicesInEffect)", undefined]);
    t.health = { ...READY, packets: { flow: false, reason: "why" } };
    await t.clock.advanceSettled(1000);
    assert.deepEqual(shown(), ["warning", "ServiceProxyReady is False (PacketsNotFlowing)", "why"]);
  }));

Deno.test("a condition is one element of a strategic merge patch of the Node's status", () =>
  setUp(async ({ clock, start, requests, ...t }) => {
    start();
    await clock.advanceSettled(3000);
    assert.deepEqual({ ...requests[0], object: undefined }, {
      verb: "patch",
      resource: "nodes/status",
      path: "/api/v1/nodes/node-1/status",
      object: undefined,
      patch: "strategic",
    });
    const [{ type, lastHeartbeatTime, lastTransitionTime }] = t.conditions() as [Condition];
    assert.equal(type, "ServiceProxyReady");
    assert.match(lastHeartbeatTime, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.equal(lastTransitionTime, lastHeartbeatTime);
  }));

Deno.test("a restart whose rules take effect within 2 s never says that the node is not ready", () =>
  setUp(async (t) => {
    t.start();
    await t.clock.advanceSettled(1500);
    t.health = READY;
    await t.clock.advanceSettled(10_000);
    assert.deepEqual(t.says(), ["True ServicesInEffect"]);
  }));

Deno.test("a slower start says so, and each change is written within a second", () =>
  setUp(async (t) => {
    t.start();
    await t.clock.advanceSettled(10_000);
    t.health = READY;
    await t.clock.advanceSettled(1000);
    t.health = { ...READY, packets: { flow: false, reason: "the table is full" } };
    await t.clock.advanceSettled(1000);
    assert.deepEqual(t.says(), ["False Starting", "True ServicesInEffect", "False PacketsNotFlowing"]);
    assert.equal(t.conditions().at(-1)!.message, "the table is full");
  }));

Deno.test("the heartbeat comes every five minutes and keeps the time of the transition", () =>
  setUp(async (t) => {
    t.health = READY;
    t.start();
    await t.clock.advanceSettled(269_000);
    assert.equal(t.requests.length, 1);
    await t.clock.advanceSettled(62_000);
    assert.equal(t.requests.length, 2);
    const [first, second] = t.conditions();
    assert.equal(second!.lastTransitionTime, first!.lastTransitionTime);
    assert.notEqual(second!.lastHeartbeatTime, first!.lastHeartbeatTime);
  }));

Deno.test("a message that keeps changing is written every ten seconds", () =>
  setUp(async (t) => {
    t.start();
    for (let second = 0; second < 30; second++) {
      t.health = { ...READY, packets: { flow: false, reason: `no answer for ${second} s` } };
      await t.clock.advanceSettled(1000);
    }
    assert.ok(t.requests.length <= 4, String(t.requests.length));
    assert.ok(t.requests.length >= 3, String(t.requests.length));
  }));

Deno.test("a refusal is a problem, and retried every minute until it is permitted", () =>
  setUp(async (t) => {
    t.health = READY;
    t.error = new Error("nodes/status is forbidden");
    t.isForbidden = true;
    t.start();
    await t.clock.advanceSettled(50_000);
    assert.deepEqual(t.problems, [[{
      code: "node-condition-refused",
      subject: "Node node-1",
      detail: "nodes/status is forbidden",
    }]]);
    t.error = undefined;
    await t.clock.advanceSettled(12_000);
    assert.deepEqual(t.says(), ["True ServicesInEffect"]);
    assert.deepEqual(t.problems.at(-1), []);
  }));

Deno.test("an API server that is away is no problem of the condition, and gets its latest state", () =>
  setUp(async (t) => {
    t.health = READY;
    t.error = new Error("connection refused");
    t.start();
    await t.clock.advanceSettled(20_000);
    t.health = { ...READY, healthy: false };
    t.error = undefined;
    await t.clock.advanceSettled(31_000);
    assert.deepEqual(t.says(), ["False ChangesOverdue"]);
    assert.deepEqual(t.problems, [[]]);
  }));

Deno.test("a stop is written once more, within a second, if anything was written before", async () => {
  for (const isWritten of [true, false]) {
    await setUp(async (t) => {
      t.health = READY;
      if (!isWritten) t.error = new Error("away");
      await t.start();
      await t.clock.advanceSettled(500);
      t.end.abort();
      t.error = undefined;
      await t.feature!.stopped!();
      assert.deepEqual(t.says(), isWritten ? ["True ServicesInEffect", "Unknown Stopped"] : []);
      await t.clock.advanceSettled(600_000);
      assert.equal(t.requests.length, isWritten ? 2 : 0);
    });
  }
});

Deno.test("a restart keeps the time of the last transition, unless the status differs", async () => {
  const before = "2020-01-02T03:04:05Z";
  for (const status of ["True", "Unknown"]) {
    await setUp(async (t) => {
      t.health = READY;
      t.node = { status: { conditions: [{ type: "Ready" }, conditionNow(status, before)] } };
      t.start();
      await t.clock.advanceSettled(500);
      const [{ lastHeartbeatTime, lastTransitionTime }] = t.conditions() as [Condition];
      assert.equal(lastTransitionTime, status === "True" ? before : lastHeartbeatTime);
      assert.notEqual(lastHeartbeatTime, before);
    });
  }
});

function conditionNow(status: string, lastTransitionTime: string) {
  return { type: "ServiceProxyReady", status, lastTransitionTime };
}

Deno.test("a Node that may not be read gets its condition with the time of this start", () =>
  setUp(async (t) => {
    t.health = READY;
    t.isForbidden = true;
    t.isReadable = false;
    t.start();
    await t.clock.advanceSettled(500);
    assert.deepEqual(t.says(), ["True ServicesInEffect"]);
  }));

Deno.test("nothing is sent while the Node does not exist, and its condition as soon as it does", () =>
  setUp(async (t) => {
    t.health = READY;
    t.uid = undefined;
    t.start();
    await t.clock.advanceSettled(60_000);
    assert.equal(t.requests.length, 0);
    assert.deepEqual(t.problems, []);
    t.uid = "first";
    await t.clock.advanceSettled(1000);
    assert.deepEqual(t.says(), ["True ServicesInEffect"]);
  }));

Deno.test("a Node that replaces another one of its name gets the condition within a second", () =>
  setUp(async (t) => {
    t.health = READY;
    t.start();
    await t.clock.advanceSettled(20_000);
    t.uid = "second";
    await t.clock.advanceSettled(1000);
    assert.deepEqual(t.says(), ["True ServicesInEffect", "True ServicesInEffect"]);
    const [first, second] = t.conditions();
    assert.notEqual(second!.lastTransitionTime, first!.lastTransitionTime);
  }));
