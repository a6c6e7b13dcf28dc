/** Reports an API server that answers, but late. */
import assert from "node:assert/strict";
import { createProblemBoard } from "../../../../core/problems/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { sleep } from "../../../../platform/clock.ts";
import { timeAnswers } from "../../../../sources/kubernetes/answer_time.ts";
import { ApiError } from "../../../../core/objects/source.ts";
import { createServerFailures } from "../../../../sources/kubernetes/recovery.ts";
import type { ApiClient, ApiRequest } from "../../../../sources/kubernetes/http.ts";
import { createLinkProbe } from "../../../../sources/kubernetes/mod.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";

const LIST: ApiRequest = { verb: "list", resource: "services", path: "/services", readDeadlineMs: 30_000 };

function timed(answer: { afterMs: number; bodyMs?: number; error?: ApiError }) {
  const clock = createFakeClock(undefined, promisesSettled);
  const board = createProblemBoard(clock, silentLogger);
  const api: ApiClient = {
    server: "https://api",
    async send({ onHeaders }, _onChunk, signal) {
      const { afterMs, bodyMs = 0, error } = answer;
      await sleep(clock, afterMs, signal);
      signal.throwIfAborted();
      if (error) throw error;
      onHeaders?.(new Headers());
      await sleep(clock, bodyMs, signal);
    },
    close() {},
  };
  const failures = createServerFailures(api, board.report);
  const end = new AbortController();
  const client = timeAnswers(api, { clock, logger: silentLogger, failures });
  const send = () => client.send(LIST, () => {}, end.signal).catch(() => {});
  const problems = () => board.current().map(({ code, detail }) => `${code}: ${detail}`);
  return { clock, client, failures, end, send, problems };
}

const LATE = ["api-slow: list services at https://api is not answered within 3 s; waiting"];

Deno.test("a request without an answer for 3 s is a problem, until a request is answered sooner", async () => {
  const answer = { afterMs: 4_000 };
  const { clock, send, problems } = timed(answer);
  for (let i = 0; i < 2; i++) {
    send();
    await clock.advanceSettled(2_999);
    assert.deepEqual(problems(), i === 0 ? [] : LATE);
    await clock.advanceSettled(1);
    assert.deepEqual(problems(), LATE);
    await clock.advanceSettled(1_000);
    assert.deepEqual(problems(), LATE, "late is not in time");
  }
  answer.afterMs = 100;
  send();
  await clock.advanceSettled(100);
  assert.deepEqual(problems(), []);
});

Deno.test("a request that fails late is reported as what it is, and nothing is added to another failure", async () => {
  const { clock, send, failures, problems } = timed({ afterMs: 4_000, error: new ApiError("unavailable", "503") });
  send();
  await clock.advanceSettled(4_000);
  assert.deepEqual(problems(), []);
  failures.failed("nodes", new ApiError("unavailable", "503"));
  send();
  await clock.advanceSettled(3_000);
  assert.deepEqual(problems(), ["source-unreachable: 503"]);
});

Deno.test("a slow server is probed although it sends events, until it answers in time", async () => {
  const answer = { afterMs: 4_000 };
  const { clock, client, failures, end, send, problems } = timed(answer);
  const link = createLinkProbe(client, { clock, logger: silentLogger, onLink() {} });
  const running = link.run(failures, end.signal).catch(() => {});
  const events = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      link.received();
      await clock.advanceSettled(1_000);
    }
  };
  send();
  await events(20);
  assert.deepEqual(problems(), LATE);
  answer.afterMs = 100;
  await events(20);
  assert.deepEqual(problems(), []);
  end.abort(new Error("the test has ended"));
  await running;
});

Deno.test("a body may take any time after the headers: a watch lasts for minutes", async () => {
  const { clock, send, problems } = timed({ afterMs: 1_000, bodyMs: 600_000 });
  const sent = send();
  await clock.advanceSettled(500_000);
  assert.deepEqual(problems(), []);
  await clock.advanceSettled(200_000);
  await sent;
  assert.deepEqual([problems(), clock.pending()], [[], []]);
});
