import assert from "node:assert/strict";
import fc from "fast-check";
import { createFailureDetector, type ProbeResult } from "../../../../features/failover/detector.ts";
import { runs } from "../../../property/runs.ts";

const THRESHOLDS = { attempts: 3, silenceMs: 150, recoveryProbes: 2, trialIntervalMs: 60_000 };

/** A detector, and a kernel that counts attempts. */
function detecting() {
  let nowMs = 0;
  const detector = createFailureDetector(THRESHOLDS, () => nowMs);
  const made = new Map<string, number>(), answered = new Map<string, number>();
  const count = (counts: Map<string, number>, endpoint: string, amount: number) =>
    counts.set(endpoint, (counts.get(endpoint) ?? 0) + amount);
  return {
    detector,
    attempts: (endpoint: string, amount: number) => count(made, endpoint, amount),
    answers(endpoint: string, amount: number) {
      const open = (made.get(endpoint) ?? 0) - (answered.get(endpoint) ?? 0);
      count(answered, endpoint, Math.min(open, amount));
    },
    wait(ms: number) {
      nowMs += ms;
    },
    /** Reads the counts after this time; returns the new suspects. */
    read(afterMs: number) {
      nowMs += afterMs;
      return detector.note(
        new Map([...made].map(([one, made]) => [one, { made, answered: answered.get(one) ?? 0 }])),
      );
    },
  };
}

/** A detector whose endpoint `a` has answered a probe and is a suspect. */
function suspecting() {
  const run = detecting(), { detector, attempts, answers, read } = run;
  attempts("a", 1);
  answers("a", 1);
  read(0);
  detector.noteProbe("a", "answered");
  attempts("a", 3);
  assert.deepEqual(read(150), ["a"]);
  return run;
}

for (
  const [name, results] of [
    ["that answers every probe that can be made", ["answered", "unknown"]],
    ["that never answered a probe", ["silent", "unknown"]],
  ] as const
) {
  Deno.test(`no sequence of attempts, whatever their number and source, leaves out an endpoint ${name}`, () => {
    const steps = fc.array(
      fc.record({
        kind: fc.constantFrom("attempts", "answers", "read", "probe", "judge"),
        endpoint: fc.constantFrom("victim", "other"),
        amount: fc.nat(1_000),
        result: fc.constantFrom<ProbeResult>("answered", "silent", "unknown"),
        ofVictim: fc.constantFrom<ProbeResult>(...results),
        anotherAnswers: fc.boolean(),
      }),
      { minLength: 20, maxLength: 80 },
    );
    const property = fc.property(steps, (steps) => {
      const { detector, attempts, answers, read } = detecting();
      const suspects: string[] = [];
      for (const { kind, endpoint, amount, result, ofVictim, anotherAnswers } of steps) {
        if (kind === "attempts") attempts(endpoint, amount);
        if (kind === "answers") answers(endpoint, amount);
        if (kind === "read") suspects.push(...read(amount));
        if (kind === "probe") detector.noteProbe(endpoint, endpoint === "victim" ? ofVictim : result);
        if (kind === "judge" && suspects.length > 0) detector.judge(suspects.shift()!, anotherAnswers);
        assert.ok(!detector.unreachable().has("victim"));
      }
    });
    fc.assert(property, runs(2_000));
  });
}

Deno.test("a suspect is left out if it does not answer a probe, and another endpoint does", () => {
  const { detector } = suspecting();
  detector.noteProbe("a", "silent");
  assert.ok(detector.isFailing("a"));
  assert.ok(detector.judge("a", true));
  assert.deepEqual([...detector.unreachable()], ["a"]);
});

for (
  const [name, happens] of Object.entries<(run: ReturnType<typeof suspecting>) => void>({
    "if no other endpoint answers": () => {},
    "that answers a later probe": ({ detector }) => detector.noteProbe("a", "answered"),
    "that answers an attempt": ({ answers, read }) => {
      answers("a", 1);
      read(10);
    },
  })
) {
  Deno.test(`a suspect that does not answer a probe is kept ${name}`, () => {
    const run = suspecting(), { detector } = run;
    detector.noteProbe("a", "silent");
    happens(run);
    assert.equal(detector.judge("a", name !== "if no other endpoint answers"), false);
    assert.equal(detector.unreachable().size, 0);
  });
}

Deno.test("an earlier probe without an answer does not tell that a suspect fails", () => {
  const { detector, attempts, read } = suspecting();
  detector.noteProbe("a", "silent");
  assert.equal(detector.judge("a", false), false);
  attempts("a", 3);
  assert.deepEqual(read(250), ["a"]);
  detector.noteProbe("a", "unknown");
  assert.equal(detector.isFailing("a"), false);
});

Deno.test("an attempt that may have been answered before the probe failed does not take its meaning from it", () => {
  const { detector, attempts, answers, read, wait } = suspecting();
  answers("a", 1);
  wait(10);
  detector.noteProbe("a", "silent");
  read(10);
  detector.judge("a", true);
  attempts("a", 3);
  assert.deepEqual(read(250), ["a"]);
});

Deno.test("unreachable endpoints are probed in turns, and others if they have attempts", () => {
  const { detector, attempts, answers, read, wait } = detecting();
  for (const one of ["a", "b", "c"]) {
    attempts(one, 1);
    answers(one, 1);
  }
  read(0);
  assert.deepEqual(detector.takeUntried(2), ["a", "b"]);
  assert.deepEqual(detector.takeUntried(2), ["c"]);
  for (const one of ["a", "b"]) {
    detector.noteProbe(one, "answered");
    attempts(one, 3);
  }
  for (const one of read(150)) {
    detector.noteProbe(one, "silent");
    detector.judge(one, true);
  }
  assert.deepEqual([detector.takeUntried(1), detector.takeUntried(1), detector.takeUntried(1)], [["a"], ["b"], ["a"]]);
  read(60_000);
  assert.deepEqual(detector.takeUntried(9), ["b", "a", "c"]);
  wait(60_000);
  detector.note(new Map());
  assert.deepEqual(detector.takeUntried(9), ["b", "a"]);
});

Deno.test("further attempts without an answer do not make the silence begin again", () => {
  const { detector, attempts, answers, read } = detecting();
  attempts("a", 1);
  answers("a", 1);
  read(0);
  detector.noteProbe("a", "answered");
  const suspects = Array.from({ length: 4 }, () => {
    attempts("a", 1);
    return read(50);
  });
  assert.deepEqual(suspects, [[], [], ["a"], []]);
});

Deno.test("an endpoint without attempts is never a suspect, however long it has none", () => {
  const { detector, attempts, answers, read } = detecting();
  attempts("a", 3);
  answers("a", 3);
  read(0);
  detector.noteProbe("a", "answered");
  for (const ms of [149, 1, 10_000, 600_000]) assert.deepEqual(read(ms), []);
});

Deno.test("an unreachable endpoint that answers no probe is tried with connections after an interval that doubles", () => {
  const { detector, attempts, read, wait } = suspecting();
  for (const intervalMs of [60_000, 120_000, 240_000, 480_000]) {
    detector.noteProbe("a", "silent");
    assert.ok(detector.judge("a", true));
    wait(intervalMs - 1);
    detector.noteProbe("a", "silent");
    assert.equal(detector.unreachable().size, 1, `${intervalMs - 1} ms`);
    wait(1);
    detector.noteProbe("a", "silent");
    assert.equal(detector.unreachable().size, 0, `${intervalMs} ms`);
    attempts("a", 3);
    assert.deepEqual(read(150), ["a"]);
  }
});

Deno.test("a suspicion without a result is over: without another attempt, it does not return", () => {
  const { detector, read } = suspecting();
  detector.judge("a", false);
  for (const ms of [250, 10_000, 600_000]) assert.deepEqual(read(ms), []);
});

Deno.test("each time that an endpoint is left out, it must answer twice as many probes in a row, up to 16", () => {
  const { detector, attempts, read } = suspecting();
  for (const probes of [2, 4, 8, 16, 16, 16]) {
    detector.noteProbe("a", "silent");
    assert.ok(detector.judge("a", true));
    for (let i = 1; i < probes; i++) detector.noteProbe("a", "answered");
    assert.equal(detector.unreachable().size, 1, `${probes - 1} of ${probes}`);
    detector.noteProbe("a", "answered");
    assert.equal(detector.unreachable().size, 0, `${probes} of ${probes}`);
    assert.deepEqual(read(1_000), [], "its earlier attempts are over");
    attempts("a", 3);
    assert.deepEqual(read(150), ["a"]);
  }
});

Deno.test("an endpoint without attempts is forgotten after an hour, and its counters may start again before", () => {
  const { detector, attempts, answers, read, wait } = detecting();
  attempts("a", 3);
  answers("a", 3);
  read(0);
  attempts("a", 1);
  answers("a", 1);
  read(0);
  detector.noteProbe("a", "answered");
  detector.note(new Map());
  wait(1_000);
  assert.deepEqual(detector.note(new Map([["a", { made: 3, answered: 0 }]])), ["a"]);
  detector.judge("a", false);
  wait(3_599_999);
  detector.note(new Map());
  assert.equal(detector.lastAnswerMs("a"), 0);
  wait(1);
  detector.note(new Map());
  assert.equal(detector.lastAnswerMs("a"), -Infinity);
});
