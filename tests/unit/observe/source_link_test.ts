import assert from "node:assert/strict";
import { createSourceLink } from "../../../observe/process/mod.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const SERVER = "https://10.0.0.1:6443";

Deno.test("a link is connecting until its first answer", () => {
  const clock = createFakeClock();
  const link = createSourceLink(clock);
  assert.equal(link.current().state, "connecting");
  clock.advance(500);
  link.report("services", SERVER, { type: "answered" });
  const { state, sinceMs, lastReceivedMs } = link.current();
  assert.deepEqual({ state, sinceMs, lastReceivedMs }, {
    state: "connected",
    sinceMs: clock.now(),
    lastReceivedMs: clock.now(),
  });
});

Deno.test("a link is disconnected while any stream fails, and keeps its last error after it has recovered", () => {
  const clock = createFakeClock();
  const link = createSourceLink(clock);
  link.report("services", SERVER, { type: "answered" });
  link.report("nodes", SERVER, { type: "answered" });
  clock.advance(1000);
  const failedMs = clock.now();
  link.report("services", SERVER, { type: "failed", error: "connection refused", retryInMs: 250 });
  link.report("nodes", SERVER, { type: "failed", error: "connection refused", retryInMs: 3000 });
  assert.deepEqual(link.current(), {
    state: "disconnected",
    sinceMs: failedMs,
    server: SERVER,
    lastReceivedMs: failedMs - 1000,
    lastError: "connection refused",
    lastErrorMs: failedMs,
    retryAtMs: failedMs + 250,
  });

  clock.advance(100);
  link.report("services", SERVER, { type: "answered" });
  assert.equal(link.current().state, "disconnected");
  assert.equal(link.current().sinceMs, failedMs, "one stream that recovers does not begin a new state");
  assert.equal(link.current().retryAtMs, failedMs + 3000);
  link.report("nodes", SERVER, { type: "received" });
  const { state, sinceMs, lastError, retryAtMs } = link.current();
  assert.deepEqual({ state, sinceMs, lastError, retryAtMs }, {
    state: "connected",
    sinceMs: clock.now(),
    lastError: "connection refused",
    retryAtMs: undefined,
  });
});

Deno.test("a stream that has ended no longer counts, whether it failed or not", () => {
  const link = createSourceLink(createFakeClock());
  link.report("watch", "leader:12091", { type: "failed", error: "refused", retryInMs: 250 });
  link.report("services", "https://api", { type: "answered" });
  assert.equal(link.current().state, "disconnected");
  link.report("watch", "leader:12091", { type: "ended" });
  link.report("services", "https://api", { type: "received" });
  assert.equal(link.current().state, "connected");
});
