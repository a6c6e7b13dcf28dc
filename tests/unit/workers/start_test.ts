import assert from "node:assert/strict";
import type { FamilyHealth, FamilyLink } from "../../../core/family_link.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createBackoff } from "../../../platform/retry.ts";
import { spawnWorker, type WorkerCode } from "../../../workers/start.ts";
import { superviseFamily } from "../../../workers/supervise.ts";
import { createFakeClock, type FakeClock } from "../../fakes/clock.ts";

interface Setup {
  readonly link: FamilyLink;
  readonly clock: FakeClock;
  /** Resolves with the next word on the worker's health, in the order in which they come. */
  nextHealth(): Promise<FamilyHealth>;
}

function code(file: string): WorkerCode {
  return { entry: new URL(file, import.meta.url), name: "test", tools: [] };
}

/** A real worker under supervision, of which the fake clock never sees the time that it takes. */
function superviseRealWorker(): Setup {
  const clock = createFakeClock();
  const come: FamilyHealth[] = [];
  const awaited: ((health: FamilyHealth) => void)[] = [];
  const link = superviseFamily({
    start: {
      type: "start",
      family: "IPv4",
      mode: "iptables",
      logLevel: "error",
      logFormat: "text",
      host: undefined,
    },
    spawn: (listener) => spawnWorker(code("./misbehaving_worker.ts"), listener),
    listener: {
      onReset() {},
      onReport() {},
      onHealth(health) {
        const waiter = awaited.shift();
        if (waiter) waiter(health);
        else come.push(health);
      },
    },
    clock,
    logger: silentLogger,
    backoff: createBackoff({ firstMs: 100, longestMs: 100, jitter: 0 }),
    pingPeriodMs: 1000,
    pingsUnanswered: 2,
    stopGraceMs: 700,
  });
  const nextHealth = () => {
    const health = come.shift();
    return health ? Promise.resolve(health) : new Promise<FamilyHealth>((resolve) => awaited.push(resolve));
  };
  return { link, clock, nextHealth };
}

/** A worker that has started and said what it may do. */
async function started(): Promise<Setup & { readonly permissions: FamilyHealth }> {
  const setup = superviseRealWorker();
  assert.equal((await setup.nextHealth()).state, "starting");
  return { ...setup, permissions: await setup.nextHealth() };
}

/** Ends a real worker though the clock stands still. */
async function stop({ link, clock }: Setup): Promise<void> {
  const stopped = link.stop();
  clock.advance(700);
  await stopped;
}

Deno.test("a worker has no permission beyond its tools, whatever this program has", async () => {
  const setup = await started();
  assert.deepEqual(setup.permissions, { state: "unfit", reason: "may: ", unsupported: false });
  await stop(setup);
});

Deno.test("a worker that throws is replaced", async () => {
  const setup = await started();
  setup.link.send({ revision: 1, base: undefined, settings: undefined, set: [], deleted: [] });
  const health = await setup.nextHealth();
  assert.ok(health.state === "restarting" && /a bug in the worker/.test(health.reason), JSON.stringify(health));
  setup.clock.advance(100);
  assert.deepEqual(await setup.nextHealth(), setup.permissions);
  await stop(setup);
});

Deno.test("a worker in an endless loop is replaced", async () => {
  const setup = await started();
  const cleanup = assert.rejects(setup.link.cleanup(), /has not answered/);
  assert.deepEqual(await setup.nextHealth(), { state: "unfit", reason: "looping", unsupported: false });
  setup.clock.advance(3000);
  await cleanup;
  assert.equal((await setup.nextHealth()).state, "restarting");
  setup.clock.advance(100);
  assert.deepEqual(await setup.nextHealth(), setup.permissions);
  await stop(setup);
});

Deno.test("a worker in an endless loop can be stopped", async () => {
  const setup = await started();
  const cleanup = assert.rejects(setup.link.cleanup(), /stopped/);
  assert.equal((await setup.nextHealth()).state, "unfit");
  await stop(setup);
  await cleanup;
});

Deno.test("a worker whose code cannot be loaded is reported", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const worker = spawnWorker(code("./no_such_worker.ts"), { onMessage() {}, onFailure: resolve });
  assert.notEqual(await promise, "");
  worker.terminate();
});
