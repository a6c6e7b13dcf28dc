/** The random choices of scenarios. */
import { type Random, seeded } from "./fakes/random.ts";

/** The random choices of one scenario of a run: they do not depend on which others run. */
export function randomOf(seed: number, scenario: string): Random {
  let mixed = seed;
  for (const code of new TextEncoder().encode(scenario)) mixed = Math.imul(mixed ^ code, 0x01000193);
  return seeded(mixed);
}

/** The seed of a run of scenarios: CHAOS_SEED, `fixed` if given, or a new one. */
export function seedOfScenarios(fixed?: number): number {
  return Number(Deno.env.get("CHAOS_SEED") ?? fixed ?? Math.floor(Math.random() * 1e6));
}
