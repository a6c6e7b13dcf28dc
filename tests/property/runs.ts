/** The gate sets 5. */
const FACTOR = Number(Deno.env.get("PROPERTY_RUNS") ?? 1);

/** The number of runs of a property that runs this often by default; `PROPERTY_RUNS=5` multiplies it. */
export function runs(usual: number): { readonly numRuns: number } {
  return { numRuns: usual * FACTOR };
}
