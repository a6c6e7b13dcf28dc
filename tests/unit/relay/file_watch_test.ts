import assert from "node:assert/strict";
import { createFileWatch } from "../../../relay/file_watch.ts";
import { createFakeClock } from "../../fakes/clock.ts";

function startLab() {
  const clock = createFakeClock();
  const lab = { clock, error: undefined as string | undefined, probes: 0, recoveries: 0 };
  const watch = createFileWatch({
    clock,
    probe() {
      lab.probes++;
      if (lab.error !== undefined) throw new Error(lab.error);
    },
    onRecovered: () => lab.recoveries++,
  });
  return { ...watch, lab };
}

Deno.test("a lack of files that an error shows ends with a successful probe", () => {
  const { note, lab } = startLab();
  note(new Error("connect ECONNREFUSED"));
  assert.deepEqual(lab.clock.pending(), []);
  lab.error = "Too many open files (os error 24)";
  note(new Error("connect EMFILE 10.1.0.1:80"));
  lab.clock.advance(10_000);
  assert.deepEqual([lab.probes, lab.recoveries], [10, 0]);
  lab.error = undefined;
  lab.clock.advance(10_000);
  assert.deepEqual([lab.probes, lab.recoveries], [11, 1]);
});

Deno.test("a lack of files that nobody saw is found by the probe after activity", () => {
  const { touch, lab } = startLab();
  touch();
  touch();
  lab.clock.advance(1000);
  assert.deepEqual([lab.probes, lab.recoveries, lab.clock.pending()], [1, 0, []]);
  lab.error = "EMFILE";
  touch();
  lab.clock.advance(1000);
  lab.error = undefined;
  lab.clock.advance(1000);
  assert.equal(lab.recoveries, 1);
});

for (const error of ["accept EMFILE", "ENFILE: file table overflow", "Too many open files (os error 24)"]) {
  Deno.test(`${error}: a lack of files, whose end is reported once`, () => {
    const { note, touch, lab } = startLab();
    note(new Error(error));
    lab.clock.advance(1000);
    touch();
    lab.clock.advance(1000);
    assert.deepEqual([lab.probes, lab.recoveries], [2, 1]);
  });
}

Deno.test("a failure of the probe for another reason shows no lack of files", () => {
  const { touch, lab } = startLab();
  lab.error = "permission denied";
  touch();
  lab.clock.advance(1000);
  lab.error = undefined;
  touch();
  lab.clock.advance(1000);
  assert.deepEqual([lab.probes, lab.recoveries, lab.clock.pending()], [2, 0, []]);
});

Deno.test("nothing is probed after the end", () => {
  const { note, stop, lab } = startLab();
  note(new Error("EMFILE"));
  stop();
  lab.clock.advance(10_000);
  assert.deepEqual([lab.probes, lab.recoveries], [0, 0]);
});
