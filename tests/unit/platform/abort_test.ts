import assert from "node:assert/strict";
import { abortedBy } from "../../../platform/abort.ts";

Deno.test("whichever signal comes first gives the reason, and the controller has a mind of its own", () => {
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

Deno.test("a signal that was aborted before counts", () => {
  assert.equal(abortedBy(AbortSignal.abort("long ago")).signal.reason, "long ago");
});
