import assert from "node:assert/strict";
import type { FamilyHealth, FamilyLink } from "../../../core/channel/family_link.ts";
import { FAMILIES, type Family } from "../../../platform/address.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createBackoff } from "../../../platform/retry.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createWorkerPool } from "../../../workers/worker_pool.ts";
import { createMemoryWatch, type MemoryWatch } from "../../../workers/memory_watch.ts";
import { superviseFamily } from "../../../workers/supervise.ts";
import { createWebWorker } from "../../../workers/web_worker.ts";
import { FAMILY_START } from "../../fakes/family_start.ts";
import { createFakeClock, type FakeClock } from "../../fakes/clock.ts";

interface Setup {
  readonly link: FamilyLink;
  readonly clock: FakeClock;
  /** Resolves with the worker's next health state, in order. */
  nextHealth(): Promise<FamilyHealth>;
}

type Spawn = Parameters<typeof superviseFamily>[0]["spawn"];

const PERMISSIONLESS: FamilyHealth = { state: "unfit", reason: "may: ", unsupported: false };

const ROLE = { mode: "iptables", path: "/usr/bin" } as const;

function code(file: string) {
  return { entry: new URL(file, import.meta.url).href, name: "test", tools: [] };
}

/** A real worker under supervision; the fake clock does not advance while it works. */
function supervise(family: Family, spawn: Spawn, memory: MemoryWatch = () => () => {}): Setup {
  const clock = createFakeClock();
  const come: FamilyHealth[] = [];
  const awaited: ((health: FamilyHealth) => void)[] = [];
  const link = superviseFamily({
    start: { ...FAMILY_START, family },
    spawn,
    listener: {
      onReset() {},
      onReport() {},
      onProblems() {},
      onHealth(health) {
        const waiter = awaited.shift();
        if (waiter) waiter(health);
        else come.push(health);
      },
    },
    clock,
    memory,
    logger: silentLogger,
    backoff: createBackoff({ firstMs: 100, longestMs: 100, jitter: 0 }),
  });
  const nextHealth = () => {
    const health = come.shift();
    return health ? Promise.resolve(health) : new Promise<FamilyHealth>((resolve) => awaited.push(resolve));
  };
  return { link, clock, nextHealth };
}

interface StartedPool {
  readonly IPv4: Setup;
  readonly IPv6: Setup;
  /** The reason why no worker is left. */
  readonly lost: Promise<string>;
  /** The number of reports of the loss. */
  losses(): number;
}

/** The workers of both families, after they have started and reported their permissions. */
async function startedPool(memory?: MemoryWatch): Promise<StartedPool> {
  const { promise: lost, resolve } = Promise.withResolvers<string>();
  let losses = 0;
  const onLost = (reason: string) => {
    losses++;
    resolve(reason);
  };
  const spawn = createWorkerPool({ ...ROLE, codeOf: () => code("./misbehaving_worker.ts"), onLost });
  const [IPv4, IPv6] = FAMILIES.map((family) => supervise(family, (listener) => spawn(family, listener), memory));
  for (const { nextHealth } of [IPv4!, IPv6!]) {
    assert.equal((await nextHealth()).state, "starting");
    assert.deepEqual(await nextHealth(), PERMISSIONLESS);
  }
  return { IPv4: IPv4!, IPv6: IPv6!, lost, losses: () => losses };
}

/** Makes a worker throw, and waits until the failure is detected. */
async function makeThrow({ link, nextHealth }: Setup): Promise<void> {
  link.send({ revision: 1, base: undefined, settings: undefined, set: [], deleted: [] });
  const health = await nextHealth();
  assert.ok(health.state === "restarting" && /a bug in the worker/.test(health.reason), JSON.stringify(health));
}

/** Makes a worker loop forever, and waits until it is detected. */
async function makeHang({ link, clock, nextHealth }: Setup): Promise<void> {
  const cleanup = assert.rejects(link.cleanup(), /no answer for/);
  assert.deepEqual(await nextHealth(), { state: "unfit", reason: "looping", unsupported: false });
  clock.advance(70_000);
  await cleanup;
  assert.equal((await nextHealth()).state, "restarting");
}

/** Puts a worker to rest, advancing the fake clock as needed. */
async function makeRest({ link, clock, nextHealth }: Setup): Promise<void> {
  assert.equal(link.rest(), true);
  assert.equal((await nextHealth()).state, "resting");
  clock.advance(700);
}

/** Waits for the replacement, which has no more permissions than the first worker, and answers. */
async function succeeded({ clock, nextHealth }: Setup): Promise<void> {
  clock.advance(100);
  assert.deepEqual(await nextHealth(), PERMISSIONLESS);
}

/** Stops real workers, advancing the fake clock as needed. */
async function stop({ IPv4, IPv6 }: Pick<StartedPool, "IPv4" | "IPv6">): Promise<void> {
  const stopped = [IPv4, IPv6].map(({ link }) => link.stop());
  for (const { clock } of [IPv4, IPv6]) clock.advance(700);
  await Promise.all(stopped);
}

/** Checks that the IPv6 worker, which started the other's replacements, still answers, and stops both. */
async function endWithSiblingAlive(pool: StartedPool): Promise<void> {
  const cleanup = assert.rejects(pool.IPv6.link.cleanup(), /stopped/);
  assert.deepEqual(await pool.IPv6.nextHealth(), { state: "unfit", reason: "looping", unsupported: false });
  await stop(pool);
  await cleanup;
  assert.equal(pool.losses(), 0);
}

/** With real workers, whose starts take a second of waiting each. */
const SCENARIOS: Readonly<Record<string, () => Promise<void>>> = {
  "a worker that throws is replaced repeatedly by its sibling, which keeps running": async () => {
    const pool = await startedPool();
    for (let times = 0; times < 2; times++) {
      await makeThrow(pool.IPv4);
      await succeeded(pool.IPv4);
    }
    await endWithSiblingAlive(pool);
  },
  "a worker in an endless loop is replaced, and so is its replacement": async () => {
    const pool = await startedPool();
    for (let times = 0; times < 2; times++) {
      await makeHang(pool.IPv6);
      await succeeded(pool.IPv6);
    }
    await stop(pool);
    assert.equal(pool.losses(), 0);
  },
  "a worker that exhausts memory is replaced, and its sibling keeps running": async () => {
    // The memory of the process is also that of other tests.
    const taken = { rss: 0, heapTotal: 0 };
    const pool = await startedPool(createMemoryWatch(systemClock, () => taken, () => Promise.resolve(300e6)));
    pool.IPv4.link.send({ revision: 0, base: undefined, settings: undefined, set: [], deleted: [] });
    taken.rss = 450e6;
    const health = await pool.IPv4.nextHealth();
    assert.ok(
      health.state === "restarting" && /have taken 450 MB of memory, their limit is 300 MB/.test(health.reason),
      JSON.stringify(health),
    );
    taken.rss = 0;
    await succeeded(pool.IPv4);
    await endWithSiblingAlive(pool);
  },
  "a worker started by its sibling ends with it, and both are lost": async () => {
    const pool = await startedPool();
    await makeThrow(pool.IPv4);
    await succeeded(pool.IPv4);
    await makeThrow(pool.IPv6);
    assert.match(await pool.lost, /no worker is left/);
    const health = await pool.IPv4.nextHealth();
    assert.ok(health.state === "restarting" && /IPv6 worker, which had started it/.test(health.reason));
    pool.IPv4.clock.advance(100);
    const again = await pool.IPv4.nextHealth();
    assert.ok(again.state === "restarting" && /no worker is left to start it/.test(again.reason));
    await stop(pool);
    assert.equal(pool.losses(), 1);
  },
  "if both workers fail before a replacement has started, both are lost": async () => {
    const pool = await startedPool();
    await makeThrow(pool.IPv6);
    await makeHang(pool.IPv4);
    await pool.lost;
    await stop(pool);
  },
  "a worker that rested is started again by its sibling, repeatedly": async () => {
    const pool = await startedPool();
    for (let times = 0; times < 2; times++) {
      await makeRest(pool.IPv6);
      pool.IPv6.link.wake();
      assert.equal((await pool.IPv6.nextHealth()).state, "starting");
      assert.deepEqual(await pool.IPv6.nextHealth(), PERMISSIONLESS);
    }
    await stop(pool);
    assert.equal(pool.losses(), 0);
  },
  "the end of the only worker is a loss while the other family rests": async () => {
    const pool = await startedPool();
    await makeRest(pool.IPv6);
    assert.equal(pool.IPv4.link.rest(), false);
    await makeThrow(pool.IPv4);
    assert.match(await pool.lost, /no worker is left/);
    await stop(pool);
  },
};

Deno.test("the workers of both families replace each other", async (test) => {
  const sanitizers = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false };
  await Promise.all(Object.entries(SCENARIOS).map(([name, fn]) => test.step({ name, fn, ...sanitizers })));
});

Deno.test("a worker whose code cannot be loaded is reported", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const worker = createWebWorker(code("./no_such_worker.ts"), resolve);
  assert.notEqual(await promise, "");
  worker.terminate();
});

Deno.test("early failures of the first workers are reported to a listener added later", async () => {
  const spawn = createWorkerPool({ ...ROLE, codeOf: () => code("./no_such_worker.ts"), onLost() {} });
  const setup = supervise("IPv4", (listener) => spawn("IPv4", listener));
  assert.equal((await setup.nextHealth()).state, "starting");
  const health = await setup.nextHealth();
  assert.equal(health.state, "restarting");
  await setup.link.stop();
});
