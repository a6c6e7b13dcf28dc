/** The patience of tests with what is real: sockets, files, workers. */
import { sleep, systemClock } from "../../platform/clock.ts";
import type { FakeClock } from "./clock.ts";

/** Multiplies every timeout on slow machines: LAB_PATIENCE, as in the conformance suite. */
const PATIENCE = Number(Deno.env.get("LAB_PATIENCE") ?? 1);

/** Longer than anything takes that will still come: only failing tests wait so long. */
const LONGEST_MS = 30_000 * PATIENCE;

/** Settles like `awaited`; rejects with an Error that names it if that takes too long. */
export async function inTime<T>(what: string | (() => string), awaited: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = systemClock.schedule(LONGEST_MS, () => {
    late.reject(new Error(`not within ${LONGEST_MS / 1000} s: ${typeof what === "string" ? what : what()}`));
  });
  return await Promise.race([awaited, late.promise]).finally(cancel);
}

/**
 * Resolves once a condition holds; rejects with an Error that shows it if it never does. For what has no event: the condition is
 * checked in each turn of the event loop.
 */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = systemClock.monotonic() + LONGEST_MS;
  while (!await holds()) {
    if (systemClock.monotonic() > endMs) throw new Error(`not within ${LONGEST_MS / 1000} s: ${holds}`);
    await sleep(systemClock, 0);
  }
}

/**
 * Advances a clock by `turnMs` in each turn of the event loop until a condition holds. However slow the machine is, both sides of
 * a connection have as many turns to answer.
 */
export function passing(clock: FakeClock, holds: () => boolean, turnMs = 25): Promise<void> {
  return until(() => {
    clock.advance(turnMs);
    return holds();
  });
}

/** Settles like `work`, while the time of a clock passes. */
export async function passingDuring<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = work.finally(() => isSettled = true);
  settled.catch(() => {});
  await passing(clock, () => isSettled);
  return await settled;
}
