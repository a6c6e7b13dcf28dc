import assert from "node:assert/strict";
import { silentLogger } from "../../../../platform/log.ts";
import { createBackoff } from "../../../../platform/retry.ts";
import { ApiError } from "../../../../core/objects/source.ts";
import { createKnownObjects } from "../../../../sources/kubernetes/known_objects.ts";
import { runReflector } from "../../../../sources/kubernetes/reflector.ts";
import { resourcesOf } from "../../../../sources/kubernetes/resource.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const ENOUGH = 4;

Deno.test("the waits between lists grow, however long each of them takes to fail", async () => {
  const clock = createFakeClock();
  const stop = new AbortController();
  const waits: number[] = [];
  const sink = { set() {}, delete() {}, synced() {}, reset() {}, problems() {} };
  const [resource] = resourcesOf(["Service"], "n1");
  await assert.rejects(
    runReflector(
      {
        resource: resource!,
        api: {
          server: "https://api",
          send() {
            clock.advance(30_000);
            return Promise.reject(new ApiError("timeout", "the list stalled"));
          },
          close() {},
        },
        known: createKnownObjects("Service", () => assert.fail("nothing was listed"), sink),
        clock,
        logger: silentLogger,
        backoff: createBackoff({ firstMs: 100, longestMs: 30_000, jitter: 0 }),
        onLink() {},
        failures: { failed() {}, isFailing: () => true, answered: () => assert.fail("the server has not answered") },
        recovery: {
          answered: () => assert.fail("the server has not answered"),
          wait(waitMs) {
            if (waits.push(waitMs) === ENOUGH) stop.abort(new Error("enough"));
            return Promise.resolve();
          },
        },
        random: () => 0.5,
        pageSize: undefined,
        readDeadlineMs: undefined,
      },
      sink,
      stop.signal,
    ),
    /enough/,
  );
  assert.deepEqual(waits, [100, 200, 400, 800]);
});
