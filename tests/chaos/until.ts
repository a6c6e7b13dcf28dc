import { sleep, systemClock } from "../../platform/clock.ts";

/** How many times longer everything may take than on a machine of its own: LAB_PATIENCE, as in the conformance suite. */
export const PATIENCE = Number(Deno.env.get("LAB_PATIENCE") ?? 1);

/**
 * Waits until a condition holds and resolves with how many milliseconds that took. Throws, saying what, where it is late:
 * after that time, as often as PATIENCE says.
 */
export async function until(
  what: string,
  withinMs: number,
  condition: () => boolean | Promise<boolean>,
  everyMs = 10,
): Promise<number> {
  const startedMs = systemClock.monotonic();
  while (!await condition()) {
    if (systemClock.monotonic() - startedMs > withinMs * PATIENCE) {
      throw new Error(`${what}: not within ${withinMs * PATIENCE / 1000} s`);
    }
    await sleep(systemClock, everyMs);
  }
  return systemClock.monotonic() - startedMs;
}
