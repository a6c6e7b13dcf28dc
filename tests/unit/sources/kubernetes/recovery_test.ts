/** Retry delays of reflectors, and how soon they recover, with an API server that fails on command. */
import assert from "node:assert/strict";
import { ApiError } from "../../../../core/objects/source.ts";
import type { ApiClient } from "../../../../sources/kubernetes/http.ts";
import { createKubernetesSource } from "../../../../sources/kubernetes/mod.ts";
import { createRecovery } from "../../../../sources/kubernetes/recovery.ts";
import type { Kind } from "../../../../core/objects/cluster_object.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { createProblemBoard, type ProblemBoard } from "../../../../core/problems/mod.ts";

const MINUTE = 60_000;

/** The API's reaction to each request: fail it, end a watch immediately, or let it continue. */
type Behaviour = (verb: string, resource: string) => ApiError | "end" | undefined;

/** A source, and the times of its requests in milliseconds on the clock. */
interface Observed {
  readonly clock: FakeClock;
  readonly atMs: number[];
  readonly synced: Kind[];
  readonly board: ProblemBoard;
  behave(next: Behaviour): void;
  /** Ends the last watch. */
  endWatch(): void;
}

async function withFailingApi(
  kinds: readonly Kind[],
  first: Behaviour,
  random: () => number,
  test: (observed: Observed) => Promise<void>,
): Promise<void> {
  const clock = createFakeClock(undefined, promisesSettled);
  const atMs: number[] = [];
  const synced: Kind[] = [];
  let behaviour = first;
  let endWatch = () => {};
  const api: ApiClient = {
    server: "https://api",
    async send({ verb, resource, onHeaders }, onChunk, signal) {
      atMs.push(clock.monotonic());
      if (atMs.length > 5_000) throw new Error(`${atMs.length} requests in ${clock.monotonic()} ms`);
      const outcome = behaviour(verb, resource);
      if (outcome instanceof ApiError) throw outcome;
      onHeaders?.(new Headers());
      if (verb === "list") return onChunk(new TextEncoder().encode('{"metadata":{"resourceVersion":"7"},"items":[]}'));
      if (outcome === "end") return;
      await new Promise<void>((resolve, reject) => {
        endWatch = resolve;
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    },
    close() {},
  };
  const source = createKubernetesSource({
    api,
    kinds,
    nodeName: "n1",
    decode: (kind) => ({ ref: { kind, namespace: "", name: "" }, object: undefined, problems: [] }),
    logger: silentLogger,
    clock,
    random,
  });
  const end = new AbortController();
  const ignored = () => {};
  const board = createProblemBoard(clock, silentLogger);
  const sink = { set: ignored, delete: ignored, reset: ignored, problems: board.report };
  const running = source.run({ ...sink, synced: (kind) => synced.push(kind) }, end.signal);
  await promisesSettled();
  try {
    await test({ clock, atMs, synced, board, behave: (next) => behaviour = next, endWatch: () => endWatch() });
  } finally {
    end.abort();
    await running;
  }
}

const KINDS = ["Service", "EndpointSlice", "Node"] as const;
const unavailable = () => new ApiError("unavailable", "503");

for (const kind of ["unavailable", "unreachable", "timeout"] as const) {
  Deno.test(`after a long outage (${kind}), everything is read within 5 s of the server's answer`, async () => {
    for (const random of [() => 0, () => 0.5, () => 0.999]) {
      for (const outageMs of [5_000, MINUTE, 7 * MINUTE + 1_234]) {
        await withFailingApi(KINDS, () => new ApiError(kind, "down"), random, async ({ clock, synced, behave }) => {
          await clock.advanceSettled(outageMs);
          behave(() => undefined);
          await clock.advanceSettled(4_500);
          assert.deepEqual(synced.toSorted(), KINDS.toSorted());
          assert.deepEqual(clock.pending(), []);
        });
      }
    }
  });
}

Deno.test("an outage is one problem of the server that names every resource, until the server answers", async () => {
  await withFailingApi(KINDS, unavailable, () => 0.5, async ({ clock, board, behave }) => {
    const startMs = clock.now();
    await clock.advanceSettled(MINUTE);
    const current = board.current();
    const [{ code, subject, detail, sinceMs, count } = assert.fail("no problem"), ...others] = current;
    assert.deepEqual([code, subject, others], ["source-unreachable", "https://api", []]);
    for (const resource of ["services", "endpointslices", "nodes"]) assert.ok(detail.includes(resource), detail);
    assert.ok(sinceMs <= startMs && count > 1);
    behave(() => undefined);
    await clock.advanceSettled(MINUTE);
    assert.deepEqual(board.current(), []);
  });
});

Deno.test("an outage at the start ends for an optional kind when the server says that it does not have it", async () => {
  await withFailingApi([...KINDS, "ServiceCIDR"], unavailable, () => 0.5, async ({ clock, board, behave }) => {
    await clock.advanceSettled(5_000);
    assert.equal(board.current().length, 1);
    const missing = new ApiError("not-found", "404");
    behave((_verb, resource) => resource.startsWith("servicecidrs") ? missing : undefined);
    await clock.advanceSettled(MINUTE);
    assert.deepEqual(board.current(), []);
  });
});

Deno.test("an optional kind that the server does not have is asked for ever more rarely", async () => {
  const missing = new ApiError("not-found", "404");
  await withFailingApi(["ServiceCIDR"], () => missing, () => 0.5, async ({ clock, atMs }) => {
    await clock.advanceSettled(60 * MINUTE);
    const waitsMs = atMs.slice(1).map((ms, index) => ms - atMs[index]!);
    assert.deepEqual(waitsMs.slice(0, 4), [1_500, 3_000, 6_000, 12_000]);
    assert.deepEqual(waitsMs.slice(-2), [450_000, 450_000]);
  });
});

Deno.test("an API server that forbids an optional kind whenever it starts is asked again within seconds", async () => {
  const forbidden = new ApiError("forbidden", "no roles yet");
  await withFailingApi(["ServiceCIDR"], () => undefined, () => 0.5, async ({ clock, atMs, behave, endWatch }) => {
    for (let start = 0; start < 2; start++) {
      await clock.advanceSettled(MINUTE);
      behave(() => forbidden);
      endWatch();
      await clock.advanceSettled(1_000);
      behave(() => undefined);
      atMs.length = 0;
      await clock.advanceSettled(1_000);
      assert.equal(atMs.length, 1, `start ${start}`);
    }
  });
});

Deno.test("an outage costs the server one request every few seconds, not one of each kind", async () => {
  await withFailingApi(KINDS, unavailable, () => 0.5, async ({ clock, atMs }) => {
    await clock.advanceSettled(MINUTE);
    atMs.length = 0;
    await clock.advanceSettled(10 * MINUTE);
    // 220 by the scout, the rest by the other two with their own backoff.
    assert.ok(atMs.length < 300, `${atMs.length} requests in 10 minutes`);
  });
});

Deno.test("the reflectors that follow the first answer spread over most of a second", async () => {
  const clock = createFakeClock(undefined, promisesSettled);
  const parts = [0, 0.2, 0.9];
  const recovery = createRecovery({ clock, random: () => parts.shift()! });
  const never = new AbortController().signal;
  const back: string[] = [];
  recovery.wait(30_000, never).then(() => back.push(`scout ${clock.monotonic()}`));
  recovery.wait(30_000, never).then(() => back.push(`one ${clock.monotonic()}`));
  recovery.wait(30_000, never).then(() => back.push(`two ${clock.monotonic()}`));
  await clock.advanceSettled(2_000);
  recovery.answered();
  await clock.advanceSettled(2_000);
  assert.deepEqual(back, ["scout 1800", "one 2180", "two 2810"]);
});

Deno.test("a wait ends with its signal, and leaves no timer", async () => {
  const clock = createFakeClock(undefined, promisesSettled);
  const recovery = createRecovery({ clock, random: () => 0.5 });
  const end = new AbortController();
  const waits = [1, 2].map(() => recovery.wait(30_000, end.signal).catch((error) => error));
  end.abort("over");
  assert.deepEqual(await Promise.all(waits), ["over", "over"]);
  assert.deepEqual(clock.pending(), []);
});

for (const retryAfterMs of [0, -5_000, -1e15]) {
  Deno.test(`a Retry-After of ${retryAfterMs} ms does not shorten the backoff`, async () => {
    const refusal = () => new ApiError("throttled", "429", { retryAfterMs });
    await withFailingApi(["Service"], refusal, () => 0.5, async ({ clock, atMs }) => {
      await clock.advanceSettled(MINUTE);
      // 250 ms, doubled up to 30 s, three quarters of each.
      assert.deepEqual(atMs.slice(0, 6), [0, 187.5, 562.5, 1312.5, 2812.5, 5812.5]);
      assert.ok(atMs.length < 10);
    });
  });
}

Deno.test("a Retry-After longer than the backoff is respected, up to 5 minutes", async () => {
  let retryAfterMs = 20_000;
  const refusal = () => new ApiError("unavailable", "503", { retryAfterMs });
  await withFailingApi(["Service"], refusal, () => 0.5, async ({ clock, atMs }) => {
    retryAfterMs = 86_400_000;
    await clock.advanceSettled(20_000);
    await clock.advanceSettled(5 * MINUTE);
    assert.deepEqual(atMs, [0, 20_000, 320_000]);
  });
});

Deno.test("watches that the server ends immediately are renewed with backoff", async () => {
  const ending: Behaviour = (verb) => verb === "watch" ? "end" : undefined;
  await withFailingApi(["Service"], ending, () => 0.5, async ({ clock, atMs }) => {
    await clock.advanceSettled(5 * MINUTE);
    // A list, and a watch whose successor follows immediately; then each wait doubles.
    assert.deepEqual(atMs.slice(0, 6), [0, 0, 0, 187.5, 562.5, 1312.5]);
    assert.ok(atMs.length < 30, `${atMs.length} requests in 5 minutes`);
  });
});

Deno.test("a watch that lasted a second is renewed immediately", async () => {
  await withFailingApi(["Service"], () => undefined, () => 0.5, async ({ clock, atMs, endWatch }) => {
    for (let i = 0; i < 4; i++) {
      await clock.advanceSettled(1_000);
      endWatch();
      await promisesSettled();
    }
    assert.deepEqual(atMs, [0, 0, 1_000, 2_000, 3_000, 4_000]);
  });
});
