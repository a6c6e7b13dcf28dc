import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../../platform/address.ts";
import { createWorkerPool, type FirstWorker } from "../../../workers/worker_pool.ts";
import type { WorkerListener } from "../../../platform/supervised_worker.ts";
import type { FamilyHandle, FromWorker, ToWorker } from "../../../workers/protocol.ts";
import { settled } from "../../fakes/clock.ts";

interface FakeWorker {
  readonly received: ToWorker[];
  emit(message: FromWorker): void;
  fail(reason: string): void;
  isTerminated: boolean;
}

/** A pool of workers that only record their messages. */
function poolUnderTest() {
  const workers = new Map<Family, FakeWorker>();
  const losses: string[] = [];
  const spawnIn = createWorkerPool({
    codeOf: (family) => ({ entry: "file:///family.ts", name: family, tools: [] }),
    path: "/usr/sbin:/sbin",
    onLost: (reason) => losses.push(reason),
    createWorker({ name }, onFailure) {
      const worker: FirstWorker = {
        onmessage: null,
        postMessage: (message: ToWorker) => void fake.received.push(message),
        terminate: () => void (fake.isTerminated = true),
      };
      const fake: FakeWorker = {
        received: [],
        emit: (data) => worker.onmessage?.call(worker as Worker, new MessageEvent("message", { data })),
        fail: onFailure,
        isTerminated: false,
      };
      workers.set(name as Family, fake);
      return worker;
    },
  });
  const spawn = (family: Family, listener: Partial<WorkerListener<FromWorker>> = {}) =>
    spawnIn(family, { onMessage() {}, onFailure() {}, ...listener });
  return { spawn, losses, IPv4: workers.get("IPv4")!, IPv6: workers.get("IPv6")! };
}

const types = (worker: FakeWorker) => worker.received.map(({ type }) => type);

/** Closes the far end of a starter's channel. */
function closePorts({ received }: FakeWorker): void {
  for (const message of received) if (message.type === "start-sibling") message.port.close();
}

Deno.test("each worker gets its role first, and no message names the code to run", () => {
  const { spawn, IPv4, IPv6 } = poolUnderTest();
  const first = spawn("IPv4");
  spawn("IPv6");
  for (const [worker, family] of [[IPv4, "IPv4"], [IPv6, "IPv6"]] as const) {
    assert.deepEqual(worker.received, [{ type: "role", family, path: "/usr/sbin:/sbin" }]);
  }
  first.terminate();
  const successor = spawn("IPv4");
  const started = IPv6.received.at(-1)!;
  assert.deepEqual(Object.keys(started).sort(), ["number", "port", "type"]);
  closePorts(IPv6);
  successor.terminate();
});

Deno.test("a starter that is being ended stays until the worker that it started ends", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const [first, starter] = FAMILIES.map((family) => spawn(family));
  first!.terminate();
  assert.ok(IPv4.isTerminated);
  const successor = spawn("IPv4");
  for (const handle of [starter!, successor]) handle.post({ type: "stop", keepWorker: false });
  starter!.terminate();
  assert.equal(IPv6.isTerminated, false);
  successor.terminate();
  assert.deepEqual(types(IPv6), ["role", "start-sibling", "stop", "end-sibling"]);
  assert.ok(IPv6.isTerminated);
  assert.deepEqual(losses, []);
  closePorts(IPv6);
});

Deno.test("a released worker is reused by the next start of its family", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const received: string[] = [];
  const first = spawn("IPv4", { onMessage: ({ type }) => received.push(`first ${type}`) });
  first.post({ type: "stop", keepWorker: true });
  first.release();
  const second = spawn("IPv4", { onMessage: ({ type }) => received.push(`second ${type}`) });
  second.post({ type: "ping" });
  IPv4.emit({ type: "pong" });
  assert.deepEqual(types(IPv4), ["role", "stop", "ping"]);
  assert.deepEqual(types(IPv6), ["role"]);
  assert.deepEqual(received, ["second pong"]);
  assert.equal(IPv4.isTerminated, false);
  assert.deepEqual(losses, []);
});

Deno.test("a worker that requires a restart of the program is a loss, reported once", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const received: FromWorker[] = [];
  for (const family of FAMILIES) spawn(family, { onMessage: (message) => received.push(message) });
  for (const worker of [IPv4, IPv6]) worker.emit({ type: "restart-needed", reason: "nft was moved" });
  assert.deepEqual(losses, ["nft was moved"]);
  assert.deepEqual(received, []);
});

/** Ends a worker as the supervision of a resting family does; `false` if not allowed. */
function rest(handle: FamilyHandle): boolean {
  if (!handle.beginRest()) return false;
  handle.post({ type: "stop", keepWorker: true });
  handle.terminate();
  return true;
}

Deno.test("a resting worker is no loss, and is started again by its sibling, which must stay", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.ok(rest(second!));
  assert.ok(IPv6.isTerminated);
  assert.equal(rest(first!), false, "the last worker");
  const again = spawn("IPv6");
  assert.deepEqual(types(IPv4), ["role", "start-sibling"]);
  assert.equal(rest(first!), false, "the other one would end with it");
  assert.ok(rest(again));
  assert.deepEqual(types(IPv4).slice(2), ["end-sibling"]);
  assert.deepEqual(losses, []);
  closePorts(IPv4);
});

Deno.test("of two workers that could rest at the same time, one stays", () => {
  const { spawn, IPv4, IPv6 } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.equal(first!.beginRest(), true);
  assert.equal(second!.beginRest(), false);
  first!.terminate();
  assert.deepEqual([IPv4.isTerminated, IPv6.isTerminated], [true, false]);
});

Deno.test("the end of the only worker is a loss while the other family rests", () => {
  const { spawn, losses } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.ok(rest(second!));
  first!.terminate();
  assert.deepEqual(losses, ["no worker is left that could start another; the rules stay"]);
  assert.throws(() => spawn("IPv6"));
});

Deno.test("the end of the only worker during a shutdown is no loss while the other family rests", () => {
  const { spawn, losses, IPv4 } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.ok(rest(second!));
  first!.post({ type: "stop", keepWorker: false });
  first!.terminate();
  assert.ok(IPv4.isTerminated);
  assert.deepEqual(losses, []);
});

Deno.test("a new run starts a worker for a resting family with the one that was kept", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.ok(rest(second!));
  first!.post({ type: "stop", keepWorker: true });
  first!.release();
  for (const family of FAMILIES) spawn(family);
  assert.deepEqual(types(IPv4), ["role", "stop", "start-sibling"]);
  assert.deepEqual(types(IPv6), ["role", "stop"]);
  assert.deepEqual(losses, []);
  closePorts(IPv4);
});

Deno.test("a worker about to rest stays if its sibling dies meanwhile, and serves again when needed", () => {
  const { spawn, losses, IPv4, IPv6 } = poolUnderTest();
  const [first, second] = FAMILIES.map((family) => spawn(family));
  assert.ok(second!.beginRest());
  second!.post({ type: "stop", keepWorker: true });
  first!.terminate();
  assert.ok(IPv4.isTerminated);
  const successor = spawn("IPv4");
  second!.terminate();
  assert.equal(IPv6.isTerminated, false, "the successor would end with it");
  assert.equal(rest(successor), false);
  const again = spawn("IPv6");
  again.post({ type: "ping" });
  assert.deepEqual(types(IPv6), ["role", "stop", "start-sibling", "ping"]);
  assert.ok(rest(successor));
  assert.equal(IPv6.isTerminated, false, "it serves its family again");
  assert.deepEqual(losses, []);
  closePorts(IPv6);
});

Deno.test("the failure of a worker that has ended is not reported, neither to it nor to its successor", () => {
  const { spawn, IPv4, IPv6 } = poolUnderTest();
  const failures: string[] = [];
  const first = spawn("IPv4", { onFailure: (reason) => failures.push(reason) });
  IPv4.fail("boom");
  first.terminate();
  IPv4.fail("late");
  spawn("IPv4", { onFailure: (reason) => failures.push(`successor: ${reason}`) });
  IPv4.fail("later");
  assert.deepEqual(failures, ["boom"]);
  closePorts(IPv6);
});

Deno.test("a worker that failed before its family was served reports that to the first listener", async () => {
  const { spawn, IPv4 } = poolUnderTest();
  const failures: string[] = [];
  IPv4.fail("boom");
  spawn("IPv4", { onFailure: (reason) => failures.push(reason) });
  await settled();
  assert.deepEqual(failures, ["boom"]);
});
