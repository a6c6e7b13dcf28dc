import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type EndpointLoad,
  factorsOf,
  NEW_SECONDS,
  nextLoad,
  steppedFactors,
  type WeighedEndpoint,
} from "../../../../features/connection_weights/decision.ts";
import { runs } from "../../../property/runs.ts";
import { simulate } from "./simulation.ts";

function load(open: number, perSecond: number, parts: Partial<EndpointLoad> = {}): EndpointLoad {
  return {
    counts: { open, opened: 0 },
    averageOpen: open,
    openedPerSecond: perSecond,
    endedPerSecond: perSecond,
    ageSeconds: 1_000,
    ...parts,
  };
}

const loads = fc.tuple(fc.nat(10_000), fc.nat(5_000)).map(([open, perSecond]) => load(open, perSecond));
const weighed = fc.record({ weight: fc.integer({ min: 1, max: 1000 }), load: loads });
const several = fc.array(weighed, { minLength: 2, maxLength: 12 });

/** The share of each endpoint, with the configured weights. */
function sharesOf(endpoints: readonly WeighedEndpoint[]): readonly number[] {
  const wanted = factorsOf(endpoints).map((factor, i) => factor * endpoints[i]!.weight);
  const sum = wanted.reduce((total, each) => total + each, 0);
  return wanted.map((each) => each / sum);
}

Deno.test("an endpoint gets an eighth of its share to four times as much, and the sum of the shares stays", () => {
  fc.assert(
    fc.property(several, (endpoints) => {
      const factors = factorsOf(endpoints);
      for (const factor of factors) {
        assert.ok(factor >= 1 / 8 - 1e-9 && factor <= 4 + 1e-9, String(factor));
      }
      const weight = endpoints.reduce((sum, endpoint) => sum + endpoint.weight, 0);
      const sum = factors.reduce((sum, factor, i) => sum + factor * endpoints[i]!.weight, 0);
      assert.ok(Math.abs(sum / weight - 1) < 1e-3, String(sum / weight));
    }),
    runs(300),
  );
});

Deno.test("equal counts give the configured shares, whatever their size", () => {
  fc.assert(
    fc.property(loads, fc.integer({ min: 2, max: 12 }), (each, count) => {
      const factors = factorsOf(Array.from({ length: count }, () => ({ weight: 3, load: each })));
      assert.ok(factors.every((factor) => Math.abs(factor - 1) < 1e-6), String(factors));
    }),
    runs(300),
  );
});

Deno.test("with more of the open connections and the same throughput, an endpoint gets no larger share", () => {
  const withOpen = ({ weight, load: { counts, openedPerSecond } }: WeighedEndpoint, more: number) => (
    { weight, load: load(counts.open + more, openedPerSecond) }
  );
  fc.assert(
    fc.property(several, fc.nat(5_000), ([first, second, ...rest], most) => {
      // The number of all stays the same: with more of them, endpoints may differ more by chance.
      const moved = Math.min(most, second!.load.counts.open);
      const busier = [withOpen(first!, moved), withOpen(second!, -moved), ...rest];
      assert.ok(sharesOf(busier)[0]! <= sharesOf([first!, second!, ...rest])[0]! + 1e-6);
    }),
    runs(300),
  );
});

Deno.test("an endpoint with ten times as many connections for the same throughput gets a tenth of the others' share", () => {
  const [slow, ...fast] = sharesOf(
    [load(250, 50), ...[1, 2, 3].map(() => load(25, 50))].map((load) => ({ weight: 1, load })),
  );
  assert.ok(Math.abs(slow! / fast[0]! - 0.1) < 0.05, String(slow));
});

Deno.test("a new endpoint gets at most its configured share, although it has no connections", () => {
  const old = { weight: 1, load: load(1_000, 10) };
  const [, , fresh] = factorsOf([old, old, { weight: 1, load: load(0, 0, { ageSeconds: NEW_SECONDS - 1 }) }]);
  assert.ok(fresh! <= 1, String(fresh));
  const [, , later] = factorsOf([old, old, { weight: 1, load: load(0, 0, { ageSeconds: NEW_SECONDS }) }]);
  assert.ok(later! > 1, String(later));
  // In a new service, all are.
  const started = [load(60, 20), load(2, 20), load(2, 20)].map((load) => ({
    weight: 1,
    load: { ...load, ageSeconds: 2 },
  }));
  assert.ok(factorsOf(started)[0]! < 0.4);
});

Deno.test("a load follows the counts: a counter that began again counts nothing", () => {
  const first = nextLoad(undefined, { open: 5, opened: 100 }, 2);
  assert.deepEqual([first.averageOpen, first.openedPerSecond, first.ageSeconds], [5, 0, 0]);
  const next = nextLoad(first, { open: 9, opened: 120 }, 1_000);
  assert.deepEqual([next.averageOpen, next.openedPerSecond, next.endedPerSecond], [9, 0.02, 0.016]);
  const restarted = nextLoad(next, { open: 0, opened: 0 }, 1_000);
  assert.deepEqual([restarted.openedPerSecond, restarted.endedPerSecond * 1_000], [0, 9]);
});

Deno.test("factors change by steps, and not for small differences", () => {
  const present = [1, 1, 1];
  assert.equal(steppedFactors([1.3, 0.8, 0.9], present), present);
  assert.deepEqual(steppedFactors([0.13, 1.3, 1.1], present), [1 / 8, Math.SQRT2, 1]);
});

const always = (seconds: number) => () => seconds;
/** A service time that is slow from 20 to 60 s. */
const slowFor = (fast: number, slow: number) => (t: number) => t >= 20 && t < 60 ? slow : fast;

Deno.test("the share of an endpoint that becomes slow falls within 4 s as with the kernel's lc, and returns", () => {
  const times = [slowFor(0.05, 0.5), ...[1, 2, 3].map(() => always(0.05))];
  const run = { seconds: 100, perSecond: always(200), times };
  const weights = simulate({ ...run, policy: "weights" }), kernel = simulate({ ...run, policy: "lc" });
  const shares = (result: typeof weights, from: number, to: number) => result.share(0, from, to);
  assert.ok(shares(weights, 24, 60) < 0.12, String(shares(weights, 24, 60)));
  assert.ok(shares(weights, 24, 60) - shares(kernel, 24, 60) < 0.08);
  assert.ok(Math.abs(shares(weights, 76, 100) - 0.25) < 0.05, String(shares(weights, 76, 100)));
});

Deno.test("one fast endpoint among slow ones gets most connections, as with the kernel's lc", () => {
  const run = { seconds: 100, perSecond: always(200), times: [always(0.05), ...[1, 2, 3].map(() => always(0.5))] };
  const weights = simulate({ ...run, policy: "weights" }).share(0, 40, 100);
  const kernel = simulate({ ...run, policy: "lc" }).share(0, 40, 100);
  assert.ok(Math.abs(weights - kernel) < 0.1, `${weights}, lc ${kernel}`);
});

const EQUAL: Readonly<Record<string, readonly [perSecond: (t: number) => number, time: number, most: number]>> = {
  "few connections": [always(1), 0.01, 0],
  "short connections": [always(20), 0.3, 0.15],
  "many connections": [always(1_000), 0.1, 0.05],
  "bursts": [(t) => t % 20 < 5 ? 1_000 : 10, 0.1, 0.1],
  "connections of 10 s": [always(8), 10, 0.6],
  "connections of a minute": [always(5), 60, 0.5],
};

for (const [name, [perSecond, time, most]] of Object.entries(EQUAL)) {
  Deno.test(`with equally fast endpoints and ${name}, shares stay equal and change rarely`, () => {
    const times = [1, 2, 3, 4].map(() => always(time));
    const { share, changes, mostOpen } = simulate({ policy: "weights", seconds: 400, perSecond, times });
    for (const i of times.keys()) assert.ok(Math.abs(share(i, 100, 400) - 0.25) < 0.04, String(share(i, 100, 400)));
    assert.ok(changes <= most * 200, `${changes} changes in 200 rounds`);
    const random = simulate({ policy: "random", seconds: 400, perSecond, times });
    assert.ok(mostOpen <= 1.1 * random.mostOpen + 2, `${mostOpen} open, at random ${random.mostOpen}`);
  });
}

Deno.test("an endpoint that joins a service with long connections catches up without a flood", () => {
  const times = [1, 2, 3, 4].map(() => always(30));
  const { share, mostOpenOf } = simulate({
    ...{ policy: "weights", seconds: 200, perSecond: always(20), times },
    startOf: (i) => i === 3 ? 60 : 0,
  });
  assert.ok(share(3, 60, 60 + NEW_SECONDS) < 0.32, String(share(3, 60, 60 + NEW_SECONDS)));
  assert.ok(mostOpenOf(3) < 1.4 * 150, String(mostOpenOf(3)));
});
