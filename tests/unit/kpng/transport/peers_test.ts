import assert from "node:assert/strict";
import { createQuota, watchLiveness } from "../../../../kpng/transport/peers.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/**
 * A connection that is probed after 30 s of silence and given up 20 s later; `events` has the times. Timers fire late by
 * `lateMs`.
 */
function watched(answers: (heard: () => void) => void, lateMs = () => 0) {
  const clock = createFakeClock();
  const events: string[] = [];
  const note = (event: string) => events.push(`${event} at ${clock.monotonic() / 1000} s`);
  const liveness = watchLiveness({
    clock: { ...clock, schedule: (ms, callback) => clock.schedule(ms + lateMs(), callback) },
    limits: { probeAfterMs: 30_000, answerMs: 20_000 },
    probe() {
      note("asked");
      answers(liveness.received);
    },
    onSilent: () => note("silent"),
  });
  return { clock, events, liveness };
}

Deno.test("onSilent is called once if the peer does not answer", () => {
  const { clock, events } = watched(() => {});
  clock.advance(600_000);
  assert.deepEqual(events, ["asked at 30 s", "silent at 50 s"]);
});

for (
  const { what, lateMs, answered, ends } of [
    { what: "an answer that is read then counts", lateMs: 60_000, answered: true, ends: ["asked at 160 s"] },
    { what: "a dead peer is given up after it", lateMs: 60_000, answered: false, ends: ["silent at 130 s"] },
    { what: "a busy process is none", lateMs: 900, answered: false, ends: ["silent at 50.9 s"] },
  ]
) {
  Deno.test(`after a stall of this process, the wait for an answer is repeated once: ${what}`, () => {
    const late = [0, lateMs];
    const { clock, events, liveness } = watched(() => {}, () => late.shift() ?? 0);
    clock.advance(50_000 + lateMs);
    if (answered) liveness.received();
    clock.advance(179_000 - 50_000 - lateMs);
    assert.deepEqual(events, ["asked at 30 s", ...ends]);
  });
}

Deno.test("a peer that answers is probed again and again", () => {
  const { clock, events } = watched((heard) => heard());
  clock.advance(160_000);
  assert.deepEqual(events, ["asked at 30 s", "asked at 80 s", "asked at 130 s"]);
});

Deno.test("an active peer is not probed; any data counts as an answer", () => {
  const { clock, events, liveness } = watched(() => {});
  for (let i = 0; i < 10; i++) {
    clock.advance(29_000);
    liveness.received();
  }
  assert.deepEqual(events, []);
  clock.advance(50_000);
  assert.deepEqual(events, ["asked at 330 s"]);
  liveness.received();
  clock.advance(39_000);
  assert.deepEqual(events, ["asked at 330 s"]);
});

Deno.test("a closed connection is no longer probed", () => {
  const { clock, events, liveness } = watched(() => {});
  clock.advance(35_000);
  liveness.stop();
  clock.advance(600_000);
  assert.deepEqual(events, ["asked at 30 s"]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a quota allows its number of events in each window, which begins with the first event after the last one", () => {
  const clock = createFakeClock(), quota = createQuota(3, 10_000, clock);
  const taken = () => Array.from({ length: 4 }, () => quota());
  assert.deepEqual(taken(), [true, true, true, false]);
  clock.advance(10_000);
  assert.equal(quota(), false);
  clock.advance(1);
  assert.deepEqual(taken(), [true, true, true, false]);
});
