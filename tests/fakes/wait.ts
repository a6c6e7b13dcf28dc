/** The patience of tests with what is real: sockets, files, workers. */
import { inTime as inTimeOf, waitFor } from "../chaos/wait.ts";
import type { FakeClock } from "./clock.ts";

/** Longer than anything takes that will still come: only failing tests wait so long. */
const LONGEST_MS = 30_000;

/** Settles like `awaited`; rejects with an Error that names it if that takes too long. */
export function inTime<T>(what: string | (() => string), awaited: Promise<T>): Promise<T> {
  return inTimeOf(what, LONGEST_MS, awaited);
}

/**
 * Resolves once a condition holds; rejects with an Error that shows it if it never does. For what has no event: the condition is
 * checked in each turn of the event loop.
 */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  await waitFor(String(holds), LONGEST_MS, holds, 0);
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
export async function passingDuring<T>(clock: FakeClock, work: Promise<T>, turnMs?: number): Promise<T> {
  let isSettled = false;
  const settled = work.finally(() => isSettled = true);
  settled.catch(() => {});
  await passing(clock, () => isSettled, turnMs);
  return await settled;
}
