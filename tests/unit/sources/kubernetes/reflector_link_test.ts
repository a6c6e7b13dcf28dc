import assert from "node:assert/strict";
import { ApiError } from "../../../../core/objects/source.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { sleep } from "../../../../platform/clock.ts";
import { createBackoff } from "../../../../platform/retry.ts";
import type { ApiClient } from "../../../../sources/kubernetes/http.ts";
import { createKnownObjects } from "../../../../sources/kubernetes/known_objects.ts";
import { runReflector } from "../../../../sources/kubernetes/reflector.ts";
import { resourcesOf } from "../../../../sources/kubernetes/resource.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A reflector of Services with this API, which ends after a while; returns how it waits and what it reports. */
async function reactionsTo(send: ApiClient["send"]): Promise<readonly string[]> {
  const clock = createFakeClock(), stop = new AbortController(), reactions: string[] = [];
  const sink = { set() {}, delete() {}, synced() {}, reset() {}, problems() {} };
  const [resource] = resourcesOf(["Service"], "n1");
  const running = runReflector(
    {
      resource: resource!,
      api: { server: "https://api", send, close() {} },
      known: createKnownObjects("Service", () => assert.fail("nothing was listed"), sink),
      clock,
      logger: silentLogger,
      backoff: createBackoff({ firstMs: 100, longestMs: 30_000, jitter: 0 }),
      onLink: ({ type }) => void reactions.push(`link ${type}`),
      failures: {
        failed: () => void reactions.push("failure"),
        isFailing: () => true,
        answered: () => void reactions.push("answered"),
      },
      recovery: {
        answered() {},
        wait() {
          reactions.push("waits for a recovery");
          return sleep(clock, 600_000, stop.signal);
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
  await clock.advanceSettled(99);
  stop.abort(new Error("enough"));
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
    // It answers: another list follows, at first at once.
    ["expired", undefined, ["waits for a recovery"]],
    ["throttled", 1_000, []],
  ] as const
) {
  const after = retryAfterMs === undefined ? "" : " with Retry-After";
  Deno.test(`a list that fails (${kind}${after}): ${reactions.join(", ") || "no failure of the link"}`, async () => {
    const failing = () => Promise.reject(new ApiError(kind, "the list failed", { retryAfterMs }));
    assert.deepEqual(await reactionsTo(failing), reactions);
  });
}

Deno.test("answers and each bookmark show that the link works", async () => {
  const encode = (value: unknown) => new TextEncoder().encode(`${JSON.stringify(value)}\n`);
  const bookmark = (resourceVersion: string) =>
    encode({ type: "BOOKMARK", object: { kind: "Service", metadata: { resourceVersion } } });
  const reactions = await reactionsTo(async (request, onChunk, signal) => {
    if (request.verb === "list") {
      return onChunk(encode({ kind: "ServiceList", metadata: { resourceVersion: "5" }, items: [] }));
    }
    for (const version of ["6", "7"]) onChunk(bookmark(version));
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  assert.deepEqual(reactions, ["link answered", "answered", "link received", "link received"]);
});
