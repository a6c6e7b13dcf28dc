import { sleep, systemClock } from "../../platform/clock.ts";

/** Waits until a condition holds and resolves with how many milliseconds that took. Throws, saying what, where it is late. */
export async function until(
  what: string,
  withinMs: number,
  condition: () => boolean | Promise<boolean>,
  everyMs = 10,
): Promise<number> {
  const startedMs = systemClock.monotonic();
  while (!await condition()) {
    if (systemClock.monotonic() - startedMs > withinMs) throw new Error(`${what}: not within ${withinMs / 1000} s`);
    await sleep(systemClock, everyMs);
  }
  return systemClock.monotonic() - startedMs;
}
