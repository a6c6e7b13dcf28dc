import assert from "node:assert/strict";
import { createRefusals } from "../../../../backends/reconcile/refusals.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function setUp() {
  let log = "";
  const logger = createLogger({
    level: "error",
    format: "text",
    clock: createFakeClock(),
    write: (text) => log += text,
  });
  const refusals = createRefusals<string>(logger);
  const refuse = (key: string, wanted?: unknown) =>
    refusals.add(key, {
      what: `rules of ${key}`,
      effect: "left out",
      servicePort: key,
      failure: "bad",
      wanted,
    });
  return { refusals, refuse, log: () => log };
}

Deno.test("a refusal is logged and reported with the tool's message", () => {
  const { refusals, refuse, log } = setUp();
  refuse("web");
  const message =
    "the kernel refuses the rules of web (left out until it changes or the next comparison with the kernel): bad";
  assert.deepEqual(refusals.problems(), [{ code: "rules-refused", servicePort: "web", message }]);
  assert.deepEqual(refusals.problemOf("web"), refusals.problems()[0]);
  assert.match(
    log(),
    /ERROR the kernel refused a change.* service=web refused="rules of web" effect="left out" error=bad/,
  );
});

Deno.test("a refusal ends when its key is forgotten, taken, or wants another value", () => {
  const { refusals, refuse } = setUp();
  const value = {};
  for (const key of ["a", "b"]) refuse(key);
  refuse("c", value);
  refusals.forget(["a", "unknown"]);
  assert.deepEqual([refusals.has("a"), refusals.has("b"), refusals.has("c", value)], [false, true, true]);
  assert.equal(refusals.has("c", {}), false);
  assert.equal(refusals.has("c", value), false);
  assert.deepEqual(refusals.takeAll(), ["b"]);
  assert.deepEqual(refusals.problems(), []);
});

Deno.test("a refusal is not taken before its time", () => {
  const { refusals, refuse } = setUp();
  refuse("a");
  refusals.add("b", { what: "rules of b", effect: "unchanged", servicePort: "b", failure: "slow", notBeforeMs: 600 });
  assert.match(refusals.problemOf("b")!.message, /unchanged until it changes or a later comparison/);
  assert.deepEqual(refusals.takeAll(599), ["a"]);
  assert.deepEqual(refusals.takeAll(600), ["b"]);
});
