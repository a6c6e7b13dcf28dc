/** Notices an API server that is gone without having closed its connections. */
import assert from "node:assert/strict";
import { createProblemBoard } from "../../../../core/problems/mod.ts";
import { createSourceLink } from "../../../../observe/process/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { ApiError } from "../../../../core/objects/source.ts";
import type { ApiClient } from "../../../../sources/kubernetes/http.ts";
import { createServerFailures } from "../../../../sources/kubernetes/recovery.ts";
import { createLinkProbe } from "../../../../sources/kubernetes/mod.ts";
import { createFakeClock, promisesSettled, settled } from "../../../fakes/clock.ts";

type Answer = "answers" | "is silent" | ApiError;

/** Runs a probe of an API server whose answer can be changed. */
async function withProbe(test: (one: ReturnType<typeof probed>) => Promise<void>): Promise<void> {
  const one = probed();
  await settled();
  try {
    await test(one);
  } finally {
    one.end.abort(new Error("the test has ended"));
    await one.running;
  }
}

function probed() {
  const clock = createFakeClock(undefined, promisesSettled);
  const link = createSourceLink(clock);
  const board = createProblemBoard(clock, silentLogger);
  const server = { answer: "answers" as Answer, requests: 0 };
  const api: ApiClient = {
    server: "https://api",
    async send(_request, _onChunk, signal) {
      server.requests++;
      if (server.answer instanceof ApiError) throw server.answer;
      if (server.answer === "answers") return;
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
    close() {},
  };
  const end = new AbortController();
  const probe = createLinkProbe({ ...api, isSlow: () => false }, { clock, logger: silentLogger, onLink: link.report });
  const running = probe.run(createServerFailures(api, board.report), end.signal).catch((error) => {
    if (!end.signal.aborted) throw error;
  });
  return { clock, link, board, server, probe, end, running };
}

Deno.test("a server that sends something is not probed", () =>
  withProbe(async ({ clock, server, probe }) => {
    for (let second = 0; second < 60; second++) {
      probe.received();
      clock.advance(1000);
      await settled();
    }
    assert.equal(server.requests, 0);
  }));

Deno.test("a silent server that answers probes is connected", () =>
  withProbe(async ({ clock, link, server }) => {
    clock.advance(10_000);
    await settled();
    assert.equal(server.requests, 1);
    assert.equal(link.current().state, "connected");
  }));

Deno.test("a server that has vanished is disconnected within 15 s of its last answer", () =>
  withProbe(async ({ clock, link, server, board }) => {
    server.answer = "is silent";
    clock.advance(10_000);
    await settled();
    clock.advance(5_000);
    await settled();
    assert.equal(link.current().state, "disconnected");
    assert.equal(link.current().lastError, "https://api has not answered for 5 s");
    assert.deepEqual(board.current().map(({ code, subject }) => [code, subject]), [[
      "api-slow",
      "https://api",
    ]]);
  }));

Deno.test("the next event of a vanished server ends the failure at once", () =>
  withProbe(async ({ clock, link, server, probe, board }) => {
    server.answer = "is silent";
    clock.advance(10_000);
    await settled();
    clock.advance(5_000);
    await settled();
    probe.received();
    assert.equal(link.current().state, "connected");
    assert.deepEqual(board.current(), []);
  }));

Deno.test("a refusal is an answer, a refused connection is not", () =>
  withProbe(async ({ clock, link, server }) => {
    server.answer = new ApiError("forbidden", "forbidden");
    clock.advance(10_000);
    await settled();
    assert.equal(link.current().state, "connected");
    server.answer = new ApiError("unreachable", "connection refused");
    clock.advance(10_000);
    await settled();
    assert.equal(link.current().state, "disconnected");
  }));
