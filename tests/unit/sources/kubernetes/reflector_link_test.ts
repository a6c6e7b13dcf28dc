import assert from "node:assert/strict";
import { ApiError, type ApiErrorKind } from "../../../../core/objects/source.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createBackoff } from "../../../../platform/retry.ts";
import { createKnownObjects } from "../../../../sources/kubernetes/known_objects.ts";
import { runReflector } from "../../../../sources/kubernetes/reflector.ts";
import { resourcesOf } from "../../../../sources/kubernetes/resource.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** The reactions of a reflector to a list that fails this way: how it waits, and what it reports. */
async function reactionsTo(kind: ApiErrorKind, retryAfterMs?: number): Promise<readonly string[]> {
  const clock = createFakeClock(), stop = new AbortController(), reactions: string[] = [];
  const sink = { set() {}, delete() {}, synced() {}, reset() {}, problems() {} };
  const [resource] = resourcesOf(["Service"], "n1");
  let lists = 0;
  const running = runReflector(
    {
      resource: resource!,
      api: {
        server: "https://api",
        send() {
          if (++lists > 1) stop.abort(new Error("enough"));
          return Promise.reject(new ApiError(kind, "the list failed", { retryAfterMs }));
        },
        close() {},
      },
      known: createKnownObjects("Service", () => assert.fail("nothing was listed"), sink),
      clock,
      logger: silentLogger,
      backoff: createBackoff({ firstMs: 100, longestMs: 30_000, jitter: 0 }),
      onLink: ({ type }) => void reactions.push(`link ${type}`),
      failures: {
        failed: () => void reactions.push("failure"),
        isFailing: () => true,
        answered: () => assert.fail("the server has not answered"),
      },
      recovery: {
        answered: () => assert.fail("the server has not answered"),
        wait() {
          reactions.push("waits for a recovery");
          return Promise.resolve();
        },
      },
      random: () => 0.5,
      pageSize: undefined,
      readDeadlineMs: undefined,
    },
    sink,
    stop.signal,
  );
  const ended = assert.rejects(running, /enough/);
  await clock.advanceSettled(60_000);
  await ended;
  return reactions;
}

for (
  const [kind, retryAfterMs, reactions] of [
    ["unreachable", undefined, ["failure", "link failed", "waits for a recovery"]],
    ["timeout", undefined, ["failure", "link failed", "waits for a recovery"]],
    ["unavailable", undefined, ["failure", "link failed", "waits for a recovery"]],
    // It answers, and says when it can be asked again.
    ["unavailable", 1_000, ["failure", "link failed"]],
    ["throttled", undefined, []],
    ["throttled", 1_000, []],
  ] as const
) {
  const after = retryAfterMs === undefined ? "" : " with Retry-After";
  Deno.test(`a list that fails (${kind}${after}): ${reactions.join(", ") || "no failure of the link"}`, async () => {
    assert.deepEqual(await reactionsTo(kind, retryAfterMs), reactions);
  });
}
