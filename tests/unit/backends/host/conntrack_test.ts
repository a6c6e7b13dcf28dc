import assert from "node:assert/strict";
import { createConntrackCleaner } from "../../../../backends/host/conntrack.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };
const DNS = fakeServicePort("default/dns", { protocol: "udp", port: 53 });

/** A runner whose runs wait until the test ends them. */
function heldRunner() {
  const runs: PromiseWithResolvers<ToolResult>[] = [];
  const runner: Runner = {
    run() {
      const run = Promise.withResolvers<ToolResult>();
      runs.push(run);
      return run.promise;
    },
  };
  return { runner, runs };
}

Deno.test("a hanging conntrack delays a sync by one second, and its result is reported later", async () => {
  const { runner, runs } = heldRunner();
  const clock = createFakeClock();
  const cleaner = createConntrackCleaner("IPv4", runner);
  cleaner.note(undefined, DNS);
  const first = cleaner.tryClean(silentLogger, clock);
  await clock.advanceSettled(1000);
  assert.deepEqual(await first, { deleted: 0, problem: undefined });
  // The next sync does not start another run in parallel.
  const second = cleaner.tryClean(silentLogger, clock);
  runs[0]!.reject(new Error("conntrack did not end within 60 s and was killed"));
  assert.match((await second).problem!.message, /cannot remove stale UDP flows.*was killed/);
  assert.equal(runs.length, 1);
  const third = cleaner.tryClean(silentLogger, clock);
  runs[1]!.resolve(DONE);
  assert.deepEqual(await third, { deleted: 0, problem: undefined });
  assert.deepEqual(clock.pending(), []);
});

Deno.test("changes noted while entries are being removed are processed right after", async () => {
  const { runner, runs } = heldRunner();
  const clock = createFakeClock();
  const cleaner = createConntrackCleaner("IPv4", runner);
  cleaner.note(undefined, DNS);
  const cleaning = cleaner.tryClean(silentLogger, clock);
  cleaner.note(DNS, undefined);
  runs[0]!.resolve(DONE);
  await settled();
  assert.equal(runs.length, 2);
  runs[1]!.resolve(DONE);
  await cleaning;
});
