import { seedOfRun } from "../fakes/random.ts";

/** The gate sets 5. */
const FACTOR = Number(Deno.env.get("PROPERTY_RUNS") ?? 1);

/** The seed of a property, and how often it runs: so often by default; `PROPERTY_RUNS=5` multiplies that. */
export function runs(usual: number): { readonly numRuns: number; readonly seed: number } {
  return { numRuns: usual * FACTOR, seed: seedOfRun() };
}
