/** A pseudo-random sequence of numbers in [0, 1) (mulberry32), so that a failing case repeats. */
export function randomSequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The random choices of one scenario of a run: they do not depend on which others run. */
export function randomOf(seed: number, scenario: string): () => number {
  let mixed = seed;
  for (const code of new TextEncoder().encode(scenario)) mixed = Math.imul(mixed ^ code, 0x01000193);
  return randomSequence(mixed);
}

/** The seed of a run: CHAOS_SEED, `fixed` if given, or a new one. */
export function seedOfRun(fixed?: number): number {
  return Number(Deno.env.get("CHAOS_SEED") ?? fixed ?? Math.floor(Math.random() * 1e6));
}
