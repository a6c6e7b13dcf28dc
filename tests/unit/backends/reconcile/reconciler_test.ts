import assert from "node:assert/strict";
import {
  createReconciler,
  type Outcome,
  type RunState,
  type Target,
} from "../../../../backends/reconcile/reconciler.ts";
import { createRefusals } from "../../../../backends/reconcile/refusals.ts";
import type { RulesetGeneration } from "../../../../backends/tools/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A kernel whose state is a counter of its listings, and a record of the calls of its target. */
function setUp(changes: Partial<Target<number, string>> = {}, listingMs = 0, generation?: RulesetGeneration) {
  const calls: string[] = [];
  const writes: RunState[] = [];
  const clock = createFakeClock();
  let listings = 0;
  let drifted = 0;
  const target: Target<number, string> = {
    list(before) {
      calls.push(`list after ${before}`);
      clock.advance(listingMs);
      return Promise.resolve({ realized: ++listings, drifted });
    },
    write(realized, run) {
      calls.push(`write ${realized}`);
      writes.push({ ...run });
      return Promise.resolve<Outcome>("written");
    },
    retry: (owners) => void calls.push(`retry ${owners.join()}`),
    ...changes,
  };
  const refusals = createRefusals<string>(silentLogger);
  const reconciler = createReconciler({ target, refusals, searchLimit: 3, clock, generation });
  const takeCalls = () => calls.splice(0);
  return { reconciler, refusals, calls, writes, clock, takeCalls, setDrifted: (count: number) => drifted = count };
}

/** Outcomes that a write returns one after the other. */
function outcomes(...all: (Outcome | Error)[]) {
  return (): Promise<Outcome> => {
    const next = all.shift()!;
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  };
}

const HOUR_MS = 3_600_000;
const REFUSAL = { what: "rules of web", effect: "left out", servicePort: "web", failure: "no" } as const;

Deno.test("the kernel is read before the first write, but not before later ones", async () => {
  const { reconciler, takeCalls } = setUp();
  await reconciler.run();
  await reconciler.run();
  assert.deepEqual(takeCalls(), ["list after undefined", "write 1", "write 1"]);
});

Deno.test("the UDP frontends of the first listing are taken once, whatever later listings have", async () => {
  let listings = 0;
  const { reconciler } = setUp({
    list: () => Promise.resolve({ realized: ++listings, drifted: 0, udpFrontends: new Set([`listing ${listings}`]) }),
  });
  assert.deepEqual([...reconciler.takeEarlierUdpFrontends()], []);
  await reconciler.run();
  reconciler.invalidate();
  await reconciler.run();
  assert.deepEqual([...reconciler.takeEarlierUdpFrontends()], ["listing 1"]);
  assert.deepEqual([...reconciler.takeEarlierUdpFrontends()], []);
});

Deno.test("an invalidated state is read again, and its differences are no drift", async () => {
  const { reconciler, takeCalls, setDrifted } = setUp();
  await reconciler.run();
  takeCalls();
  setDrifted(5);
  reconciler.invalidate();
  assert.equal(reconciler.realized(), undefined);
  await reconciler.run();
  assert.deepEqual(takeCalls(), ["list after undefined", "write 2"]);
  assert.equal(reconciler.takeDrifted(), 0);
});

Deno.test("a comparison retries what was refused, reads the kernel, counts drift, and writes", async () => {
  const { reconciler, refusals, writes, takeCalls, setDrifted } = setUp();
  await reconciler.run();
  takeCalls();
  refusals.add("web", REFUSAL);
  assert.equal(reconciler.problemOf("web")?.servicePort, "web");
  setDrifted(2);
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry web", "list after 1", "write 2"]);
  assert.deepEqual(reconciler.problems(), []);
  assert.deepEqual([reconciler.takeDrifted(), reconciler.takeDrifted()], [2, 0]);
  assert.deepEqual(writes.map(({ isFresh, isComparison }) => [isFresh, isComparison]), [[true, false], [false, true]]);
});

Deno.test("after a slow listing, comparisons only glance at the kernel until the listing is 1 % of the elapsed time", async () => {
  const glances = [4, undefined];
  const { reconciler, clock, takeCalls } = setUp({ glance: () => Promise.resolve(glances.shift()) }, 1_000);
  await reconciler.run();
  takeCalls();
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry ", "write 1"]);
  assert.equal(reconciler.takeDrifted(), 4);
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry ", "list after 1", "write 2"]);
  clock.advance(99_999);
  glances.push(0);
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry ", "write 2"]);
  clock.advance(1);
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry ", "list after 2", "write 3"]);
});

Deno.test("a single slow listing does not put off the next one", async () => {
  const tookMs = [100, 10_000, 10_000, 100];
  const { reconciler, clock, takeCalls } = setUp({
    glance: () => Promise.resolve(0),
    list: (before) => {
      clock.advance(tookMs.shift()!);
      return Promise.resolve({ realized: (before ?? 0) + 1, drifted: 0 });
    },
  });
  await reconciler.compareAndRun();
  for (const isListed of [true, true, false]) {
    clock.advance(10_000);
    takeCalls();
    const left = tookMs.length;
    await reconciler.compareAndRun();
    assert.equal(tookMs.length < left, isListed);
  }
});

Deno.test("what was written, or changed by another program, is listed within 3 % of the elapsed time", async () => {
  const { reconciler, clock, takeCalls, setDrifted } = setUp({ glance: () => Promise.resolve(0) }, 1_000);
  await reconciler.run();
  takeCalls();
  for (const [drifted, isListed] of [[1, true], [0, true], [0, false]] as const) {
    setDrifted(drifted);
    clock.advance(33_333);
    await reconciler.compareAndRun();
    assert.equal(takeCalls().some((call) => call.startsWith("list")), false, "before 3 %");
    clock.advance(1);
    await reconciler.compareAndRun();
    assert.equal(takeCalls().some((call) => call.startsWith("list")), isListed);
  }
});

Deno.test("because of a fault the kernel is listed until that is 10 % of the elapsed time", async () => {
  const { reconciler, clock, takeCalls } = setUp({ glance: () => Promise.resolve(0) }, 1_000);
  await reconciler.run();
  takeCalls();
  clock.advance(9_999);
  await reconciler.compareAndRun("fault");
  assert.deepEqual(takeCalls(), ["retry ", "write 1"]);
  clock.advance(1);
  await reconciler.compareAndRun();
  assert.deepEqual(takeCalls(), ["retry ", "write 1"]);
  await reconciler.compareAndRun("fault");
  assert.deepEqual(takeCalls(), ["retry ", "list after 1", "write 2"]);
});

Deno.test("a ruleset that two listings have shown is not listed again until it changes", async () => {
  let generation: number | undefined = 1;
  const { reconciler, refusals, takeCalls, setDrifted } = setUp({}, 0, () => generation);
  const compare = async () => {
    await reconciler.compareAndRun();
    return takeCalls().some((call) => call.startsWith("list"));
  };
  const steps: readonly [string, () => unknown, readonly boolean[]][] = [
    ["the first listing is followed by writes", () => {}, [true, true, false, false]],
    ["another program changes something", () => generation = 2, [true, true, false]],
    ["a tool may not have written", () => reconciler.run().then(takeCalls), [true, true, false]],
    ["a difference is found", () => [generation = 3, setDrifted(1)], [true, true, true]],
    ["its repair is found", () => setDrifted(0), [true, false]],
    ["the state is read again", () => reconciler.invalidate(), [true, true, false]],
    ["a refused change is tried again", () => refusals.add("web", REFUSAL), [true, true, false]],
    ["the generation is unknown", () => generation = undefined, [true, true, true]],
    ["the generation is known again", () => generation = 3, [true, true, false]],
  ];
  for (const [what, step, listed] of steps) {
    await step();
    for (const isListed of listed) assert.equal(await compare(), isListed, what);
  }
});

Deno.test("after a write that failed, two listings of the same ruleset show whether the next one took effect", async () => {
  const next = outcomes(
    "written",
    "written",
    "written",
    new Error("busy"),
    ...Array.from({ length: 4 }, () => "written" as const),
  );
  const { reconciler, takeCalls } = setUp({ write: next }, 0, () => 1);
  const isListed = async () => {
    await reconciler.compareAndRun();
    return takeCalls().some((call) => call.startsWith("list"));
  };
  assert.deepEqual([await isListed(), await isListed(), await isListed()], [true, true, false]);
  await assert.rejects(reconciler.run(), /busy/);
  assert.deepEqual([await isListed(), await isListed(), await isListed()], [true, true, false]);
});

Deno.test("after an uncertain write the kernel is compared, and the next write is fresh", async () => {
  const writes: boolean[] = [];
  const next = outcomes("written", "uncertain", "written");
  const { reconciler, clock, takeCalls } = setUp({
    write(_, { isFresh }) {
      writes.push(isFresh);
      return next();
    },
  });
  await reconciler.run();
  clock.advance(HOUR_MS);
  await reconciler.run();
  assert.deepEqual(takeCalls(), ["list after undefined", "list after 1"]);
  assert.deepEqual(writes, [true, false, true]);
});

Deno.test("an incomplete write is repeated without reading the kernel, on one search budget", async () => {
  const budgets: number[] = [];
  const next = outcomes("incomplete", "incomplete", "written");
  const { reconciler, takeCalls } = setUp({
    write(_, { searchBudget }) {
      budgets.push(searchBudget.left--);
      return next();
    },
  });
  await reconciler.run();
  assert.deepEqual(takeCalls(), ["list after undefined"]);
  assert.deepEqual(budgets, [3, 2, 1]);
});

Deno.test("a failed write keeps the realized state, and a failed listing too", async () => {
  const next = outcomes("written", new Error("busy"), "written");
  const listings = [Promise.resolve({ realized: 7, drifted: 0 }), Promise.reject(new Error("cut off"))];
  const { reconciler } = setUp({ write: next, list: () => listings.shift()! });
  await reconciler.run();
  await assert.rejects(reconciler.run(), /busy/);
  await assert.rejects(reconciler.compareAndRun(), /cut off/);
  assert.equal(reconciler.realized(), 7);
  await reconciler.run();
});

Deno.test("drift that a second look shows to be none is not counted", async () => {
  const { reconciler, setDrifted } = setUp({ confirm: () => Promise.resolve(2) });
  await reconciler.run();
  setDrifted(3);
  await reconciler.compareAndRun();
  assert.equal(reconciler.takeDrifted(), 1);
});
