import assert from "node:assert/strict";
import type { FamilyHealth, FamilyLink } from "../../../core/channel/family_link.ts";
import {
  describeRules,
  type FamilyDelta,
  readPacketCounts,
  readTraffic,
  type SyncReport,
} from "../../../core/model/mod.ts";
import { type Logger, silentLogger } from "../../../platform/log.ts";
import type { WorkerListener } from "../../../platform/supervised_worker.ts";
import { createBackoff } from "../../../platform/retry.ts";
import type { FromWorker, StartMessage, ToWorker } from "../../../workers/protocol.ts";
import { superviseFamily } from "../../../workers/supervise.ts";
import { FAMILY_START } from "../../fakes/family_start.ts";
import { createFakeClock, type FakeClock, settled } from "../../fakes/clock.ts";

const START: StartMessage = { ...FAMILY_START, family: "IPv6" };
const DELTA: FamilyDelta = { revision: 1, base: undefined, settings: undefined, set: [], deleted: [] };
const REPORT: SyncReport = {
  family: "IPv6",
  revision: 1,
  ok: true,
  full: true,
  endedAtMs: 0,
  durationMs: 1,
  problems: [],
  counts: {},
};

interface FakeWorker {
  readonly received: ToWorker[];
  readonly says: (message: FromWorker) => void;
  readonly fails: (reason: string) => void;
  terminated: boolean;
  released: boolean;
  mayRest: boolean;
}

interface Setup {
  readonly link: FamilyLink;
  /** Active work registered with the memory watch, as the callbacks that it would call. */
  readonly works: ReadonlySet<(reason: string) => void>;
  readonly clock: FakeClock;
  readonly workers: FakeWorker[];
  /** Calls of the listener in order: `reset`, `report 1`, or a health state. */
  readonly events: string[];
  readonly health: FamilyHealth[];
  readonly reports: SyncReport[];
  worker(): FakeWorker;
}

/** Restart delays of 100, 200, 400 … ms; a ping every second, hung after three periods without a message. */
async function supervise(failures: Error[] = [], logger = silentLogger): Promise<Setup> {
  const clock = createFakeClock();
  const workers: FakeWorker[] = [];
  const events: string[] = [];
  const health: FamilyHealth[] = [], reports: SyncReport[] = [];
  const works = new Set<(reason: string) => void>();
  const spawn = (listener: WorkerListener<FromWorker>) => {
    const failure = failures.shift();
    if (failure) throw failure;
    const worker: FakeWorker = {
      received: [],
      says: listener.onMessage,
      fails: listener.onFailure,
      terminated: false,
      released: false,
      mayRest: true,
    };
    workers.push(worker);
    return {
      post: (message: ToWorker) => void worker.received.push(message),
      terminate: () => void (worker.terminated = true),
      release: () => void (worker.released = true),
      beginRest: () => worker.mayRest,
    };
  };
  const link = superviseFamily({
    start: START,
    spawn,
    listener: {
      onReset: () => events.push("reset"),
      onReport(report) {
        events.push(`report ${report.revision}`);
        reports.push(report);
      },
      onProblems: (scope, problems) => events.push(`problems ${scope} ${problems.map(({ code }) => code)}`),
      onHealth(state) {
        events.push(state.state);
        health.push(state);
      },
    },
    clock,
    memory(onExhausted) {
      const work = (reason: string) => onExhausted(reason);
      works.add(work);
      return () => works.delete(work);
    },
    logger,
    backoff: createBackoff({ firstMs: 100, longestMs: 10_000, jitter: 0 }),
  });
  await settled();
  return { link, works, clock, workers, events, health, reports, worker: () => workers.at(-1)! };
}

const LEFTOVERS = { code: "leftovers-kept", subject: "IPv4", detail: "busy" } as const;

const types = (worker: FakeWorker) => worker.received.map((message) => message.type);

Deno.test("a worker is started with the first message, and its messages are forwarded", async () => {
  const { link, worker, events, health } = await supervise();
  assert.deepEqual(worker().received, [START]);
  worker().says({ type: "setup-failed", reason: "no ip6tables", unsupported: true });
  worker().says({ type: "ready" });
  link.send(DELTA);
  worker().says({ type: "report", report: REPORT });
  worker().says({ type: "problems", scope: "takeover", problems: [LEFTOVERS] });
  worker().says({ type: "reset" });
  assert.deepEqual(worker().received.slice(1), [{ type: "sync", delta: DELTA }]);
  assert.deepEqual(events, [
    "starting",
    "unfit",
    "ready",
    "reset",
    "report 1",
    "problems takeover leftovers-kept",
    "reset",
  ]);
  assert.deepEqual(health[1], { state: "unfit", reason: "no ip6tables", unsupported: true });
});

Deno.test("counts and problems that no worker may report are left out", async () => {
  const { worker, reports, events } = await supervise();
  worker().says({ type: "ready" });
  worker().says({ type: "report", report: { ...REPORT, counts: { drift_repaired: 1, 'x"} 1': 2 } } });
  worker().says({
    type: "problems",
    scope: "takeover",
    problems: [LEFTOVERS, { ...LEFTOVERS, code: "no-such" as never }],
  });
  assert.deepEqual(reports.map(({ counts }) => counts), [{ drift_repaired: 1 }]);
  assert.equal(events.at(-1), "problems takeover leftovers-kept");
});

Deno.test("a second stop ends with the first", async () => {
  const { link, worker } = await supervise();
  const stops = [link.stop(), link.stop({ keepWorker: true })];
  worker().says({ type: "stopped" });
  await Promise.all(stops);
  assert.deepEqual(types(worker()), ["start", "stop"]);
});

Deno.test("a failed worker is terminated, and restarted with growing backoff", async () => {
  const { workers, worker, clock, health } = await supervise();
  for (const [count, waitMs] of [[1, 100], [2, 200], [3, 400]] as const) {
    worker().fails("Uncaught Error: boom");
    assert.ok(worker().terminated);
    await settled();
    assert.deepEqual(health.at(-1), { state: "restarting", reason: "Uncaught Error: boom", restarts: count });
    clock.advance(waitMs - 1);
    assert.equal(workers.length, count);
    clock.advance(1);
    assert.equal(workers.length, count + 1);
    assert.deepEqual(worker().received, [START]);
  }
  worker().says({ type: "ready" });
  assert.deepEqual(health.at(-1), { state: "ready" });
});

Deno.test("a successful sync resets the backoff", async () => {
  const { workers, worker, clock } = await supervise();
  worker().fails("a");
  clock.advance(100);
  worker().says({ type: "report", report: REPORT });
  worker().fails("b");
  clock.advance(100);
  assert.equal(workers.length, 3);
});

Deno.test("a worker that fails twice is restarted once, and its later messages are ignored", async () => {
  const { workers, worker, clock, events } = await supervise();
  const dead = worker();
  dead.fails("a");
  dead.fails("b");
  assert.deepEqual(clock.pending(), [100], "only the restart is left");
  clock.advance(1000);
  assert.equal(workers.length, 2);
  dead.says({ type: "report", report: REPORT });
  dead.fails("c");
  await settled();
  assert.deepEqual(events, ["starting", "restarting"]);
  assert.equal(worker().terminated, false);
});

Deno.test("messages sent while there is no worker are dropped without an error", async () => {
  const { link, worker, works, clock } = await supervise();
  worker().fails("a");
  link.send(DELTA);
  assert.equal(works.size, 0);
  clock.advance(100);
  assert.deepEqual(types(worker()), ["start"]);
});

Deno.test("a worker that cannot be started is retried", async () => {
  const { workers, clock, health } = await supervise([new Error("no permission"), new Error("no permission")]);
  assert.deepEqual(health.at(-1), {
    state: "restarting",
    reason: "cannot start: no permission",
    restarts: 1,
  });
  clock.advance(100);
  assert.equal(workers.length, 0);
  clock.advance(200);
  assert.equal(workers.length, 1);
});

Deno.test("a worker silent for six periods is considered hung, and pinged once, not once a period", async () => {
  const { workers, worker, clock, health } = await supervise();
  clock.advance(60_000);
  assert.deepEqual(types(worker()), ["start", "ping"]);
  assert.equal(worker().terminated, false);
  clock.advance(10_000);
  assert.ok(worker().terminated);
  await settled();
  assert.equal(health.at(-1)?.state, "restarting");
  clock.advance(100);
  assert.equal(workers.length, 2);
});

Deno.test("memory is watched from a delta until a successful sync is reported, and only while the worker lives", async () => {
  const { link, works, workers, worker, clock, health } = await supervise();
  assert.equal(works.size, 0);
  link.send(DELTA);
  link.send(DELTA);
  assert.equal(works.size, 1);
  worker().says({ type: "report", report: { ...REPORT, ok: false } });
  assert.equal(works.size, 1);
  worker().says({ type: "report", report: REPORT });
  assert.equal(works.size, 0);
  link.send(DELTA);
  for (const onExhausted of works) onExhausted("too much memory");
  assert.ok(worker().terminated);
  assert.equal(works.size, 0);
  await settled();
  assert.deepEqual(health.at(-1), { state: "restarting", reason: "too much memory", restarts: 1 });
  clock.advance(100);
  assert.equal(workers.length, 2);
  link.send(DELTA);
  assert.equal(link.rest(), true);
  assert.equal(works.size, 0);
  worker().says({ type: "stopped" });
  link.wake();
  link.send(DELTA);
  const stopped = link.stop();
  worker().says({ type: "stopped" });
  await stopped;
  assert.equal(works.size, 0);
});

Deno.test("a worker that answers or sends any other message stays alive", async () => {
  const { workers, worker, clock } = await supervise();
  for (let round = 0; round < 5; round++) {
    clock.advance(25_000);
    worker().says({ type: "pong" });
    clock.advance(25_000);
    worker().says({ type: "report", report: REPORT });
  }
  assert.equal(workers.length, 1);
  assert.equal(types(worker()).filter((type) => type === "ping").length, 10);
});

Deno.test("cleanup ends with the worker's result", async () => {
  const { link, worker } = await supervise();
  const first = link.cleanup();
  assert.equal(worker().received.at(-1)?.type, "cleanup");
  assert.equal(link.cleanup(), first);
  worker().says({ type: "cleaned", problem: undefined });
  await first;
  const second = link.cleanup();
  worker().says({ type: "cleaned", problem: "iptables-restore: locked" });
  await assert.rejects(second, { message: "iptables-restore: locked" });
});

Deno.test("a cleanup fails if its worker fails or is stopped", async () => {
  const { link, worker, clock } = await supervise();
  const first = link.cleanup();
  worker().fails("boom");
  await assert.rejects(first, /IPv6 rules were not all removed: the worker died: boom/);
  await assert.rejects(link.cleanup(), /no worker is running/);
  clock.advance(100);
  const second = link.cleanup();
  const rejected = assert.rejects(second, /stopped/);
  const stopped = link.stop();
  worker().says({ type: "stopped" });
  await Promise.all([rejected, stopped]);
});

Deno.test("a stopping worker that ends by itself is not waited for any longer", async () => {
  const { link, worker, clock } = await supervise();
  const stopped = link.stop();
  assert.equal(worker().received.at(-1)?.type, "stop");
  worker().says({ type: "report", report: REPORT });
  worker().says({ type: "stopped" });
  await stopped;
  assert.ok(worker().terminated);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a worker that is stopped for another start is released and keeps running", async () => {
  const { link, worker, clock } = await supervise();
  const stopped = link.stop({ keepWorker: true });
  assert.deepEqual(worker().received.at(-1), { type: "stop", keepWorker: true });
  worker().says({ type: "stopped" });
  await stopped;
  assert.ok(worker().released);
  assert.equal(worker().terminated, false);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a worker that does not stop is terminated in less than a second, which is logged", async () => {
  const warnings: string[] = [];
  const logger: Logger = { ...silentLogger, with: () => logger, warn: (text) => void warnings.push(text) };
  const { link, worker, clock } = await supervise([], logger);
  let hasStopped = false;
  const stopped = link.stop().then(() => hasStopped = true);
  await clock.advanceSettled(699);
  assert.deepEqual([hasStopped, warnings], [false, []]);
  await clock.advanceSettled(1);
  await stopped;
  assert.ok(worker().terminated);
  assert.deepEqual(warnings, ["worker did not stop in time; terminating it"]);
  const inTime = await supervise([], logger);
  const ended = inTime.link.stop();
  inTime.worker().says({ type: "stopped" });
  await ended;
  assert.equal(warnings.length, 1);
});

Deno.test("a worker that will be reused has longer to stop, since it may be the only one", async () => {
  const { link, worker, clock } = await supervise();
  const stopped = link.stop({ keepWorker: true });
  await clock.advanceSettled(4_999);
  assert.equal(worker().terminated, false);
  await clock.advanceSettled(1);
  await stopped;
  assert.ok(worker().terminated);
});

for (const when of ["before", "after"] as const) {
  Deno.test(`a worker that dies ${when} the stop is not restarted`, async () => {
    const { link, workers, worker, clock } = await supervise();
    if (when === "before") worker().fails("boom");
    const stopped = link.stop();
    if (when === "after") worker().fails("boom");
    await stopped;
    await link.stop();
    clock.advance(100_000);
    assert.equal(workers.length, 1);
    assert.deepEqual(clock.pending(), []);
  });
}

Deno.test("a call gets the answer with its number, or none if late or without a live worker", async () => {
  const { link, worker, clock } = await supervise();
  const rules = { parts: [{ place: "chain services", lines: ["drop"] }], problem: undefined };
  const calls = [
    link.call(describeRules, "a|tcp"),
    link.call(describeRules, "b|tcp"),
    link.call(readPacketCounts, undefined),
  ];
  assert.deepEqual(worker().received.slice(1), [
    { type: "call", number: 1, name: "describeRules", request: "a|tcp" },
    { type: "call", number: 2, name: "describeRules", request: "b|tcp" },
    { type: "call", number: 3, name: "readPacketCounts", request: undefined },
  ]);
  worker().says({ type: "answered", number: 2, answer: rules });
  worker().says({ type: "answered", number: 7, answer: rules });
  worker().says({ type: "answered", number: 3, answer: undefined });
  assert.deepEqual([await calls[1], await calls[2]], [rules, undefined]);
  clock.advance(5_000);
  assert.equal(await calls[0], undefined);
  worker().says({ type: "answered", number: 1, answer: rules });
  worker().fails("boom");
  assert.equal(await link.call(describeRules, "a|tcp"), undefined);
});

Deno.test("a slow reading of traffic is not lost, and one that is wrong is no answer", async () => {
  const { link, worker, clock } = await supervise();
  const reading = { durationMs: 1, ports: [], endpoints: [], counts: new Float64Array(), failures: [] };
  const [slow, wrong] = [link.call(readTraffic, undefined), link.call(readTraffic, undefined)];
  clock.advance(5_000);
  worker().says({ type: "answered", number: 1, answer: reading });
  worker().says({ type: "answered", number: 2, answer: { ...reading, durationMs: NaN } });
  assert.deepEqual([await slow, await wrong], [reading, undefined]);
});

Deno.test("a resting worker is stopped and terminated, and a new one starts when it wakes", async () => {
  const { link, workers, worker, clock, events } = await supervise();
  worker().says({ type: "ready" });
  assert.equal(link.rest(), true);
  assert.deepEqual(worker().received.at(-1), { type: "stop", keepWorker: true });
  assert.equal(link.rest(), false, "it is about to end");
  worker().says({ type: "report", report: REPORT });
  worker().says({ type: "stopped" });
  assert.ok(worker().terminated);
  await clock.advanceSettled(100_000);
  assert.deepEqual(events, ["starting", "ready", "reset", "resting"]);
  assert.equal(await link.call(readPacketCounts, undefined), undefined);
  assert.deepEqual(clock.pending(), []);
  link.wake();
  link.wake();
  await settled();
  assert.equal(workers.length, 2);
  assert.deepEqual(worker().received, [START]);
  worker().says({ type: "ready" });
  assert.deepEqual(events.slice(4), ["starting", "ready", "reset"]);
});

Deno.test("a worker woken before it has stopped is replaced once it has stopped", async () => {
  const { link, workers, worker, events } = await supervise();
  link.rest();
  link.wake();
  assert.equal(workers.length, 1);
  worker().says({ type: "stopped" });
  assert.ok(workers[0]!.terminated);
  assert.equal(workers.length, 2);
  await settled();
  assert.deepEqual(events, ["starting", "resting", "starting"]);
});

for (const how of ["dies", "hangs"] as const) {
  Deno.test(`a worker that ${how} while stopping for a rest is terminated, and none is started`, async () => {
    const { link, workers, worker, clock, events } = await supervise();
    link.rest();
    if (how === "dies") worker().fails("boom");
    else clock.advance(700);
    assert.ok(worker().terminated);
    await clock.advanceSettled(100_000);
    assert.equal(workers.length, 1);
    assert.deepEqual(events, ["starting", "resting"]);
  });
}

Deno.test("a worker that may not rest, or is being restarted, does not rest", async () => {
  const { link, worker } = await supervise();
  worker().mayRest = false;
  assert.equal(link.rest(), false);
  assert.deepEqual(types(worker()), ["start"]);
  worker().mayRest = true;
  worker().fails("boom");
  assert.equal(link.rest(), false);
});

for (const when of ["resting", "about to rest"] as const) {
  Deno.test(`a family that is ${when} can be stopped`, async () => {
    const { link, workers, worker, clock } = await supervise();
    link.rest();
    if (when === "resting") worker().says({ type: "stopped" });
    const stopped = link.stop({ keepWorker: true });
    if (when === "about to rest") worker().says({ type: "stopped" });
    await stopped;
    assert.ok(worker().terminated);
    assert.equal(worker().released, false);
    await clock.advanceSettled(100_000);
    assert.equal(workers.length, 1);
    assert.deepEqual(clock.pending(), []);
  });
}

for (const during of ["cleanup", "stop"] as const) {
  Deno.test(`a worker does not rest during a ${during}`, async () => {
    const { link, worker } = await supervise();
    const ended = link[during]();
    assert.equal(link.rest(), false);
    assert.deepEqual(types(worker()), ["start", during]);
    worker().says(during === "stop" ? { type: "stopped" } : { type: "cleaned", problem: undefined });
    await ended;
  });
}

for (const state of ["rests", "serves again"] as const) {
  Deno.test(`nothing follows from a worker that was terminated, while its family ${state}`, async () => {
    const { link, workers, clock, events } = await supervise();
    const [ended] = workers;
    link.rest();
    ended!.says({ type: "stopped" });
    if (state === "serves again") link.wake();
    await settled();
    const before = [...events], { length } = workers;
    ended!.fails("it was killed");
    ended!.says({ type: "report", report: REPORT });
    await clock.advanceSettled(1_000);
    assert.deepEqual([events, workers.length], [before, length]);
  });
}
