/** Uncaught errors, which would end the whole room, fail the test that caused them. */
import { AsyncLocalStorage } from "node:async_hooks";
import { promisesSettled } from "./clock.ts";

/** An error, and the number of the test that caused it: the first test of a room is 1. */
interface Uncaught {
  readonly test: number;
  readonly error: unknown;
}

/**
 * Makes an uncaught error fail the test that caused it, and no other. Those that come after the end of their test are reported
 * at the end of the room. An error without a known cause is one of the running test.
 */
export function catchUncaught(): void {
  const cause = new AsyncLocalStorage<number>();
  let running = 0;
  let errors: Uncaught[] = [];
  const note = (event: Event, error: unknown) => {
    event.preventDefault();
    errors.push({ test: cause.getStore() ?? running, error });
  };
  globalThis.addEventListener("error", (event) => note(event, event.error));
  globalThis.addEventListener("unhandledrejection", (event) => note(event, event.reason));
  Deno.test.beforeEach(() => cause.enterWith(++running));
  Deno.test.afterEach(async () => {
    // The errors of streams that a test has closed come in the next turns of the event loop.
    for (let turn = 0; turn < 2; turn++) await promisesSettled();
    const own = errors.filter(({ test }) => test === running);
    errors = errors.filter(({ test }) => test !== running);
    throwAny(own);
  });
  Deno.test.afterAll(() => throwAny(errors));
}

function throwAny(errors: readonly Uncaught[]): void {
  if (errors.length === 0) return;
  const texts = errors.map(({ test, error }) =>
    `uncaught error of test ${test}: ${error instanceof Error ? error.stack : error}`
  );
  throw new Error(texts.join("\n"));
}
