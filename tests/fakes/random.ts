/** The random choices of tests, which can be repeated. */

let chosen: number | undefined;

/** The seed of every random choice of this run: TEST_SEED, or else a new one, which is printed. */
export function seedOfRun(): number {
  return chosen ??= givenOrNew();
}

function givenOrNew(): number {
  const given = Deno.env.get("TEST_SEED");
  if (given !== undefined) return Number(given);
  const [seed] = crypto.getRandomValues(new Uint32Array(1));
  console.log(`TEST_SEED=${seed}`);
  return seed!;
}

/** Returns a number in [0, 1), as Math.random does. */
export type Random = () => number;

/** Returns an integer from 0 up to a bound. */
export type RandomBelow = (bound: number) => number;

/** Reproducible random numbers (mulberry32), by default from the seed of this run. */
export function seeded(seed = seedOfRun()): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Reproducible random integers from 0 up to a bound. */
export function seededBelow(seed = seedOfRun()): RandomBelow {
  const random = seeded(seed);
  return (bound) => Math.floor(random() * bound);
}
