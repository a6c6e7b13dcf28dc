import assert from "node:assert/strict";
import { createHook } from "../../../../cli/commands/hook.ts";
import { silentLogger } from "../../../../platform/log.ts";
import type { ProgramResult, RunProgram } from "../../../../platform/mod.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";

/** A hook whose program ends when the test says so. */
function setUp() {
  const clock = createFakeClock();
  const given: string[] = [];
  let end: (result: ProgramResult) => void = () => assert.fail("no run is in progress");
  const stop = new AbortController();
  const run: RunProgram = ({ stdin = "" }) => {
    given.push(stdin);
    return new Promise((resolve) => end = resolve);
  };
  const hook = createHook("hook", run, 1000, { clock, logger: silentLogger, signal: stop.signal }, () => 0.5);
  return {
    clock,
    given,
    hook,
    stop,
    async end(exitCode = 0) {
      end({ exitCode, stdout: "", stderr: "no\n" });
      await settled();
    },
  };
}

Deno.test("changes during a run are coalesced into the next one", async () => {
  const { hook, given, end } = setUp();
  hook.give("1");
  hook.give("2");
  hook.give("3");
  assert.deepEqual(given, ["1"]);
  await end();
  assert.deepEqual(given, ["1", "3"]);
  await end();
  assert.deepEqual(given, ["1", "3"]);
  hook.give("4");
  assert.deepEqual(given, ["1", "3", "4"]);
});

Deno.test("a failed run is repeated after a wait, with the newest state", async () => {
  const { hook, given, end, clock } = setUp();
  hook.give("1");
  await end(1);
  assert.deepEqual(given, ["1"], "not before the wait");
  await clock.advanceSettled(1000);
  assert.deepEqual(given, ["1", "1"]);
  await end(1);
  hook.give("2");
  await clock.advanceSettled(60_000);
  assert.deepEqual(given, ["1", "1", "2"]);
});

Deno.test("a state that comes during a run that fails is the one that is tried next", async () => {
  const { hook, given, end, clock } = setUp();
  hook.give("1");
  hook.give("2");
  await end(1);
  await clock.advanceSettled(1000);
  assert.deepEqual(given, ["1", "2"]);
});

Deno.test("the waits of a hook that fails grow, and start over after a run that succeeds", async () => {
  const { hook, given, end, clock } = setUp();
  /** How long a failed run waits, in steps of 50 ms. */
  const waitMs = async () => {
    const runs = given.length, endMs = clock.monotonic();
    await end(1);
    while (given.length === runs) await clock.advanceSettled(50);
    return clock.monotonic() - endMs;
  };
  hook.give("1");
  const first = await waitMs(), second = await waitMs();
  assert.ok(second > 1.5 * first, `${first} ms, then ${second} ms`);
  await end();
  hook.give("2");
  assert.equal(await waitMs(), first);
});

Deno.test("the hook is idle except during a run", async () => {
  const { hook, end } = setUp();
  await hook.idle();
  hook.give("1");
  let isIdle = false;
  const idle = hook.idle().then(() => isIdle = true);
  await settled();
  assert.equal(isIdle, false);
  await end(1);
  await idle;
});

Deno.test("no run begins after the signal", async () => {
  const { hook, given, end, stop } = setUp();
  hook.give("1");
  hook.give("2");
  stop.abort(new Error("stopped"));
  await end();
  assert.deepEqual(given, ["1"]);
});
