import { sleep, systemClock } from "../../platform/clock.ts";

/** Multiplies every timeout on slow machines: LAB_PATIENCE, as in the conformance suite. */
export const TIMEOUT_FACTOR = Number(Deno.env.get("LAB_PATIENCE") ?? 1);

/**
 * Polls a condition and resolves with the milliseconds until it held.
 * @throws naming `what` once `withinMs` times the timeout factor has passed
 */
export async function waitFor(
  what: string,
  withinMs: number,
  condition: () => boolean | Promise<boolean>,
  everyMs = 10,
): Promise<number> {
  const startedMs = systemClock.monotonic();
  while (!await condition()) {
    if (systemClock.monotonic() - startedMs > withinMs * TIMEOUT_FACTOR) {
      throw new Error(`${what}: not within ${withinMs * TIMEOUT_FACTOR / 1000} s`);
    }
    await sleep(systemClock, everyMs);
  }
  return systemClock.monotonic() - startedMs;
}

/**
 * Settles as `work` does.
 * @throws naming `what` once `withinMs` times the timeout factor has passed
 */
export async function inTime<T>(what: string | (() => string), withinMs: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const limitMs = withinMs * TIMEOUT_FACTOR;
  const cancel = systemClock.schedule(limitMs, () => {
    late.reject(new Error(`${typeof what === "string" ? what : what()}: not within ${limitMs / 1000} s`));
  });
  return await Promise.race([work, late.promise]).finally(cancel);
}
