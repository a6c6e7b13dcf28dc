import assert from "node:assert/strict";
import { abortedBy, unlessAborted, untilAborted } from "../../../platform/clock.ts";

Deno.test("the first aborted signal gives the reason; the controller can be aborted on its own", () => {
  const one = new AbortController(), other = new AbortController();
  const both = abortedBy(one.signal, undefined, other.signal);
  assert.equal(both.signal.aborted, false);
  other.abort("the other");
  one.abort("the one");
  assert.equal(both.signal.reason, "the other");
  const own = abortedBy(new AbortController().signal);
  own.abort("itself");
  assert.equal(own.signal.reason, "itself");
});

Deno.test("a signal that is already aborted aborts the controller", () => {
  assert.equal(abortedBy(AbortSignal.abort("long ago")).signal.reason, "long ago");
});

Deno.test("a wait settles like its promise unless the signal is aborted first", async () => {
  const { signal } = new AbortController();
  assert.equal(await unlessAborted(Promise.resolve(1), signal), 1);
  await assert.rejects(unlessAborted(Promise.reject(new Error("failed")), signal), /failed/);
  const shutdown = new AbortController();
  const waiting = unlessAborted(new Promise(() => {}), shutdown.signal);
  shutdown.abort(new Error("shutdown"));
  await assert.rejects(waiting, /shutdown/);
  await assert.rejects(unlessAborted(new Promise(() => {}), shutdown.signal), /shutdown/);
});

Deno.test("work that a signal ends may fail once that is aborted, and not before", async () => {
  const stop = new AbortController(), failing = () => Promise.reject(new Error("broken"));
  await assert.rejects(untilAborted(failing(), stop.signal), /broken/);
  stop.abort();
  await untilAborted(failing(), stop.signal);
});
