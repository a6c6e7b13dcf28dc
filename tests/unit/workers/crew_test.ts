import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../../platform/address.ts";
import { createCrew, type FirstWorker } from "../../../workers/crew.ts";
import type { FromWorker, ToWorker } from "../../../workers/protocol.ts";
import type { WorkerListener } from "../../../workers/supervise.ts";

interface FakeWorker {
  readonly received: ToWorker[];
  says(message: FromWorker): void;
  isTerminated: boolean;
}

/** A crew of workers that only note what they are told. */
function crewUnderTest() {
  const workers = new Map<Family, FakeWorker>();
  const losses: string[] = [];
  const crew = createCrew({
    codeOf: (family) => ({ entry: "file:///family.ts", name: family, tools: [] }),
    path: "/usr/sbin:/sbin",
    onLost: (reason) => losses.push(reason),
    createWorker({ name }) {
      const worker: FirstWorker = {
        onmessage: null,
        postMessage: (message: ToWorker) => void fake.received.push(message),
        terminate: () => void (fake.isTerminated = true),
      };
      const fake: FakeWorker = {
        received: [],
        says: (data) => worker.onmessage?.call(worker as Worker, new MessageEvent("message", { data })),
        isTerminated: false,
      };
      workers.set(name as Family, fake);
      return worker;
    },
  });
  const spawn = (family: Family, listener: Partial<WorkerListener> = {}) =>
    crew.spawn(family, { onMessage() {}, onFailure() {}, ...listener });
  return { spawn, losses, IPv4: workers.get("IPv4")!, IPv6: workers.get("IPv6")! };
}

const types = (worker: FakeWorker) => worker.received.map(({ type }) => type);

/** Ends the other end of the channel that a starter was handed. */
function closePorts({ received }: FakeWorker): void {
  for (const message of received) if (message.type === "start-sibling") message.port.close();
}

Deno.test("each worker is given its role before anything else, and no message says what code runs", () => {
  const { spawn, IPv4, IPv6 } = crewUnderTest();
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

Deno.test("a starter that is to end stays until the worker that it started ends, and then ends, too", () => {
  const { spawn, losses, IPv4, IPv6 } = crewUnderTest();
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

Deno.test("a released worker is the one that its family starts next", () => {
  const { spawn, losses, IPv4, IPv6 } = crewUnderTest();
  const heard: string[] = [];
  const first = spawn("IPv4", { onMessage: ({ type }) => heard.push(`first ${type}`) });
  first.post({ type: "stop", keepWorker: true });
  first.release();
  const second = spawn("IPv4", { onMessage: ({ type }) => heard.push(`second ${type}`) });
  second.post({ type: "ping" });
  IPv4.says({ type: "pong" });
  assert.deepEqual(types(IPv4), ["role", "stop", "ping"]);
  assert.deepEqual(types(IPv6), ["role"]);
  assert.deepEqual(heard, ["second pong"]);
  assert.equal(IPv4.isTerminated, false);
  assert.deepEqual(losses, []);
});

Deno.test("a worker that needs a restart of the program is a loss, which is reported once", () => {
  const { spawn, losses, IPv4, IPv6 } = crewUnderTest();
  const heard: FromWorker[] = [];
  for (const family of FAMILIES) spawn(family, { onMessage: (message) => heard.push(message) });
  for (const worker of [IPv4, IPv6]) worker.says({ type: "restart-needed", reason: "nft was moved" });
  assert.deepEqual(losses, ["nft was moved"]);
  assert.deepEqual(heard, []);
});
