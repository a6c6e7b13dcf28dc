import assert from "node:assert/strict";
import fc from "fast-check";
import { type FailureWatchOptions, type Unreachable, watchFailures } from "../../../../features/failover/watch.ts";
import type { Attempts } from "../../../../core/model/worker_calls.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { runs } from "../../../property/runs.ts";

const ALL = ["a", "b", "c", "d"];
const SETTINGS = {
  ...{ attempts: 3, silenceMs: 150, recoveryProbes: 2, trialIntervalMs: 60_000 },
  ...{ intervalMs: 150, recoveryIntervalMs: 1_000 },
};

/** A service with these endpoints, and a kernel that counts 5 attempts to each in use every 100 ms. */
function watching(changes: Partial<FailureWatchOptions> = {}, endpoints = ALL) {
  const clock = createFakeClock(undefined, promisesSettled);
  const counts = new Map<string, Attempts>();
  const silent = new Set<string>(), silentToProbes = new Set<string>(), gone = new Set<string>();
  const probes: string[] = [], answers = { afterMs: 0 };
  const reported: (readonly Unreachable[])[] = [];
  const end = new AbortController();
  const watch = watchFailures({
    settings: SETTINGS,
    read: () => Promise.resolve(new Map(counts)),
    usesOf: (wanted) =>
      new Map(
        [...wanted].filter((one) => endpoints.includes(one) && !gone.has(one)).map((one) => [one, {
          servicePorts: ["shop/web"],
          siblings: endpoints.filter((other) => other !== one && !gone.has(other)),
        }]),
      ),
    async probe(endpoint) {
      probes.push(endpoint);
      const isSilent = silentToProbes.has(endpoint), ms = isSilent ? 300 : answers.afterMs;
      if (ms === 0) return "answered";
      await new Promise<void>((resolve) => clock.schedule(ms, resolve));
      return silentToProbes.has(endpoint) ? "silent" : "answered";
    },
    onChange: (unreachable) => reported.push(unreachable),
    clock,
    signal: end.signal,
    ...changes,
  });
  const attempt = (one: string, times = 1) => {
    if (watch.unreachable().has(one)) return;
    const { made, answered } = counts.get(one) ?? { made: 0, answered: 0 };
    counts.set(one, { made: made + times, answered: answered + (silent.has(one) ? 0 : times) });
  };
  const traffic = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      for (const one of endpoints) attempt(one, 5);
      await clock.advanceSettled(Math.min(100, ms - passed));
    }
  };
  const fail = (...names: string[]) => {
    for (const one of names) {
      silent.add(one);
      silentToProbes.add(one);
    }
  };
  const heal = (...names: string[]) => {
    for (const one of names) {
      silent.delete(one);
      silentToProbes.delete(one);
    }
  };
  const left = () => [...watch.unreachable()].sort().join("");
  return {
    clock,
    counts,
    silent,
    silentToProbes,
    gone,
    probes,
    answers,
    reported,
    end,
    watch,
    attempt,
    traffic,
    fail,
    heal,
    left,
  };
}

Deno.test("endpoints that fail under traffic are left out within a second, together", async () => {
  const { traffic, fail, left, reported, watch } = watching();
  await traffic(1_000);
  fail("c", "d");
  await traffic(900);
  assert.equal(left(), "cd");
  assert.deepEqual(reported.at(-1), [
    { endpoint: "c", servicePorts: ["shop/web"] },
    { endpoint: "d", servicePorts: ["shop/web"] },
  ]);
  assert.equal(reported.length, 1);
  assert.equal(watch.ejections(), 2);
});

Deno.test("an endpoint that dies right after it was suspected and has answered a probe is left out within a second", async () => {
  const blip = fc.record({ silentMs: fc.integer({ min: 0, max: 400 }), answersMs: fc.integer({ min: 0, max: 3_000 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(blip, { maxLength: 4 }), fc.integer({ min: 0, max: 400 }), async (blips, lastMs) => {
      const { traffic, fail, silent, left } = watching();
      await traffic(1_000);
      for (const { silentMs, answersMs } of [...blips, { silentMs: lastMs, answersMs: 0 }]) {
        silent.add("d");
        await traffic(silentMs);
        silent.delete("d");
        await traffic(answersMs === 0 ? 0 : 200 + answersMs);
      }
      assert.equal(left(), "");
      fail("d");
      await traffic(1_000);
      assert.equal(left(), "d");
    }),
    runs(100),
  );
});

Deno.test("one attempt is enough if it is not answered for the time of silence, nor any probe", async () => {
  const { clock, attempt, fail, left } = watching();
  await clock.advanceSettled(500);
  for (const one of ALL) attempt(one);
  await clock.advanceSettled(500);
  fail("d");
  attempt("d");
  await clock.advanceSettled(800);
  // Before the client repeats it, after 1 s.
  assert.equal(left(), "d");
});

Deno.test("an endpoint is kept if no other one answers a probe: a network policy may have begun to drop them", async () => {
  const { traffic, fail, silentToProbes, left, probes } = watching();
  await traffic(1_000);
  for (const one of ALL) silentToProbes.add(one);
  fail("d");
  probes.length = 0;
  await traffic(5_000);
  assert.ok(probes.includes("a"));
  assert.equal(left(), "");
});

Deno.test("of the other endpoints, those that have answered last are probed", async () => {
  const endpoints = [..."abcdefgh"], dead = [..."abcd"];
  const { clock, attempt, fail, left } = watching({}, endpoints);
  await clock.advanceSettled(500);
  for (const one of endpoints) attempt(one);
  await clock.advanceSettled(500);
  fail(...dead);
  for (const one of endpoints) attempt(one);
  await clock.advanceSettled(1_000);
  assert.equal(left(), "abcd");
});

Deno.test("a reading that waits for a processor does not delay the next ones; those that are always slow take a tenth of the time", async () => {
  const readings = async (slowMs: (index: number) => number, endpoints = 1_000) => {
    let count = 0;
    const { clock } = watching({
      async read() {
        const ms = slowMs(count++);
        await new Promise<void>((resolve) => clock.schedule(ms, resolve));
        return new Map(Array.from({ length: endpoints }, (_, index) => [`${index}`, { made: 1, answered: 1 }]));
      },
    });
    await clock.advanceSettled(10_000);
    return count;
  };
  assert.ok(await readings((index) => index % 2 === 0 ? 100 : 10) > 40);
  assert.ok(await readings(() => 100) < 12);
  assert.ok(await readings((index) => index === 0 ? 10 : 100) < 20, "a short one counts for eight readings");
  // Those of few endpoints wait for a processor.
  assert.ok(await readings(() => 100, 10) > 25);
});

Deno.test("an endpoint that answers while the others are probed is kept", async () => {
  const { traffic, clock, silent, silentToProbes, left, probes } = watching({}, ["a", "d"]);
  await traffic(1_000);
  silentToProbes.add("a").add("d");
  silent.add("d");
  probes.length = 0;
  while (!probes.includes("a")) await traffic(50);
  silent.delete("d");
  await traffic(100);
  silentToProbes.clear();
  await clock.advanceSettled(1_000);
  assert.equal(left(), "");
});

Deno.test("an endpoint is used again after it has answered two probes in a row", async () => {
  const { traffic, fail, heal, left } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(5_000);
  assert.equal(left(), "d");
  heal("d");
  await traffic(3_000);
  assert.equal(left(), "");
});

Deno.test("an endpoint that fails again and again must answer longer each time", async () => {
  const { traffic, fail, heal, left } = watching();
  await traffic(1_000);
  for (const seconds of [2, 4, 8]) {
    fail("d");
    await traffic(3_000);
    assert.equal(left(), "d");
    heal("d");
    await traffic(seconds * 1_000 - 500);
    assert.equal(left(), "d");
    await traffic(2_000);
    assert.equal(left(), "");
  }
});

Deno.test("an endpoint that answers probes or single attempts is kept", async () => {
  const { traffic, silent, left, probes, counts } = watching();
  await traffic(1_000);
  probes.length = 0;
  // Its accept queue is full: connections fail, but its host refuses a probe.
  silent.add("d");
  await traffic(10_000);
  assert.equal(left(), "");
  assert.ok(probes.length >= 3 && probes.length <= 8, `${probes.length} probes in 10 s`);
  // Packet loss: a few attempts are lost, and then one is answered.
  silent.delete("d");
  probes.length = 0;
  for (let i = 0; i < 50; i++) {
    const { made, answered } = counts.get("c")!;
    counts.set("c", { made: made + 1, answered: answered - (i % 4 === 0 ? 0 : 4) });
    await traffic(100);
  }
  assert.equal(left(), "");
});

Deno.test("an attempt that is answered during the probes keeps the endpoint", async () => {
  const { traffic, silent, silentToProbes, left } = watching();
  await traffic(1_000);
  silent.add("d");
  silentToProbes.add("d");
  await traffic(300);
  silent.delete("d");
  await traffic(2_000);
  assert.equal(left(), "");
});

Deno.test("a node that is cut off leaves out nothing", async () => {
  const { traffic, fail, left } = watching();
  await traffic(1_000);
  fail(...ALL);
  await traffic(20_000);
  assert.equal(left(), "");
});

Deno.test("if the others fail later, an endpoint that was left out is used again", async () => {
  const { traffic, fail, left } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(2_000);
  assert.equal(left(), "d");
  fail(...ALL);
  await traffic(5_000);
  assert.equal(left(), "");
});

Deno.test("if the others answer attempts but no probes, an endpoint that was left out stays so", async () => {
  const { traffic, fail, silentToProbes, left } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(2_000);
  for (const one of ALL) silentToProbes.add(one);
  fail("c");
  await traffic(5_000);
  assert.equal(left(), "d");
});

Deno.test("an endpoint that never answered a probe is no suspect: a network policy may drop what this node sends", async () => {
  const { traffic, fail, silentToProbes, left, probes } = watching();
  silentToProbes.add("d");
  await traffic(1_000);
  fail("d");
  await traffic(9_000);
  assert.equal(left(), "");
  assert.deepEqual(probes.filter((one) => one === "d"), ["d"]);
});

Deno.test("an endpoint that answers attempts but no longer probes is no suspect until it answers one again", async () => {
  const { traffic, silent, fail, heal, silentToProbes, left } = watching();
  await traffic(1_000);
  // A network policy begins to drop the probes, and the attempts of a client.
  for (const one of ALL) silentToProbes.add(one);
  silent.add("d");
  await traffic(1_000);
  heal("a", "b", "c");
  silent.delete("d");
  await traffic(1_000);
  silent.add("d");
  await traffic(9_000);
  assert.equal(left(), "");
  heal("d");
  await traffic(60_000);
  fail("d");
  await traffic(1_000);
  assert.equal(left(), "d");
});

Deno.test("an endpoint that answers attempts after it was left out is used again", async () => {
  const { traffic, fail, left, counts } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(1_000);
  assert.equal(left(), "d");
  // Connections still reach it through a service port that would lose too many endpoints.
  for (let i = 0; i < 5; i++) {
    const { made, answered } = counts.get("d")!;
    counts.set("d", { made: made + 1, answered: answered + 1 });
    await traffic(200);
  }
  assert.equal(left(), "");
});

Deno.test("an endpoint that was left out is tried again after a minute: only its probes may be dropped", async () => {
  const { traffic, fail, silent, left, watch } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(50_000);
  assert.equal(left(), "d");
  await traffic(15_000);
  assert.equal(left(), "d", "it failed again in the meantime");
  assert.equal(watch.ejections(), 2);
  silent.delete("d");
  await traffic(120_000);
  assert.equal(left(), "");
});

Deno.test("an endpoint that leaves the service is forgotten", async () => {
  const { traffic, fail, left, gone, reported } = watching();
  await traffic(1_000);
  fail("d");
  await traffic(2_000);
  gone.add("d");
  await traffic(2_000);
  assert.equal(left(), "");
  assert.deepEqual(reported.at(-1), []);
});

Deno.test("after the end, whenever it comes, nothing is read, probed or reported", async () => {
  for (let ms = 0; ms <= 1_000; ms += 50) {
    const { clock, traffic, fail, end, reported, probes, answers } = watching();
    answers.afterMs = 60;
    await traffic(1_000);
    fail("d");
    await traffic(ms);
    end.abort();
    const before = [reported.length, probes.length];
    await clock.advanceSettled(5_000);
    assert.deepEqual([[reported.length, probes.length], clock.pending()], [before, []], `${ms} ms after the failure`);
  }
});

Deno.test("however many endpoints fail, each is probed, and a limited number at the same time", async () => {
  const endpoints = Array.from({ length: 120 }, (_, i) => `e${i}`);
  let probing = 0, most = 0;
  const { traffic, clock, fail, silentToProbes, watch } = watching({
    async probe(endpoint, kind) {
      if (kind === "thorough") most = Math.max(most, ++probing);
      await new Promise<void>((resolve) => clock.schedule(20, resolve));
      if (kind === "thorough") probing--;
      return silentToProbes.has(endpoint) ? "silent" : "answered";
    },
  }, endpoints);
  await traffic(5_000);
  fail(...endpoints.slice(0, 80));
  await traffic(3_000);
  assert.deepEqual([...watch.unreachable()].sort(), endpoints.slice(0, 80).sort());
  assert.deepEqual([watch.ejections(), most], [80, 32]);
});
