import assert from "node:assert/strict";
import { createBackoff, retry } from "../../../platform/mod.ts";
import { createFakeClock } from "../../fakes/clock.ts";

Deno.test("delays double up to the longest one, and begin again after a success", () => {
  const backoff = createBackoff({ firstMs: 100, longestMs: 1_000, jitter: 0 });
  const next = (count: number) => Array.from({ length: count }, () => backoff.nextMs());
  assert.deepEqual(next(6), [100, 200, 400, 800, 1_000, 1_000]);
  backoff.reset();
  assert.deepEqual(next(2), [100, 200]);
});

Deno.test("half of a delay is random by default, or the given part", () => {
  for (const [jitter, random, expected] of [[undefined, 0, 50], [undefined, 1, 100], [0.2, 0, 80], [1, 0.25, 25]]) {
    assert.equal(createBackoff({ firstMs: 100, longestMs: 100, jitter, random: () => random! }).nextMs(), expected);
  }
});

/** Retries an operation that fails so often; resolves with the times of its attempts and the outcome. */
async function retried(failures: number, options: { readonly tries?: number; readonly abortAtMs?: number } = {}) {
  const clock = createFakeClock(), stop = new AbortController(), attempts: number[] = [], waits: number[] = [];
  if (options.abortAtMs !== undefined) clock.schedule(options.abortAtMs, () => stop.abort(new Error("stopped")));
  const outcome = retry(
    () => {
      attempts.push(clock.monotonic());
      return attempts.length > failures ? Promise.resolve("done") : Promise.reject(new Error("failed"));
    },
    {
      ...{ backoff: createBackoff({ firstMs: 100, longestMs: 1_000, jitter: 0 }), clock, signal: stop.signal },
      ...{ tries: options.tries, onRetry: (_: unknown, waitMs: number) => void waits.push(waitMs) },
    },
  ).catch((error: Error) => error.message);
  await clock.advanceSettled(5_000);
  return { attempts, waits, outcome: await outcome };
}

Deno.test("an operation is tried until it succeeds, as often as permitted, or until the signal is aborted", async () => {
  assert.deepEqual(await retried(2), { attempts: [0, 100, 300], waits: [100, 200], outcome: "done" });
  assert.deepEqual(await retried(9, { tries: 2 }), { attempts: [0, 100], waits: [100], outcome: "failed" });
  assert.deepEqual(await retried(9, { abortAtMs: 150 }), { attempts: [0, 100], waits: [100, 200], outcome: "stopped" });
});

Deno.test("a failure after the abort is no failure, and causes no retry", async () => {
  const stop = new AbortController();
  const operation = () => {
    stop.abort(new Error("stopped"));
    return Promise.reject(new Error("failed"));
  };
  const backoff = createBackoff({ firstMs: 100, longestMs: 100 }), onRetry = () => assert.fail("no retry");
  await assert.rejects(
    retry(operation, { backoff, clock: createFakeClock(), signal: stop.signal, onRetry }),
    /stopped/,
  );
});
