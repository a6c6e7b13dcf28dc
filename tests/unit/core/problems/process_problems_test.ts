import assert from "node:assert/strict";
import { createProblemBoard, createProcessProblems, type Problem } from "../../../../core/problems/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const INVALID: Problem = { code: "configuration-invalid", subject: "kp.yaml", detail: "line 5" };
const CLOSED: Problem = { code: "control-socket-closed", subject: "/run/sluice.sock", detail: "read-only" };

Deno.test("problems of the process reach the board of each run, and are logged once", () => {
  const lines: string[] = [];
  const clock = createFakeClock();
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => lines.push(line) });
  const ofProcess = createProcessProblems();
  const newRun = () => {
    const board = createProblemBoard(clock, logger);
    ofProcess.attach(board.report);
    return () => board.current().map(({ code }) => code).toSorted();
  };
  ofProcess.report("control socket", [CLOSED]);
  const first = newRun();
  assert.deepEqual(first(), ["control-socket-closed"]);
  ofProcess.report("configuration", [INVALID]);
  assert.deepEqual(first(), ["configuration-invalid", "control-socket-closed"]);
  ofProcess.report("configuration", []);
  const second = newRun();
  assert.deepEqual(second(), ["control-socket-closed"]);
  ofProcess.report("configuration", [INVALID]);
  assert.equal(second().length, 2);
  assert.equal(first().length, 1, "the board of an earlier run gets no more");
  assert.equal(lines.filter((line) => line.includes("control-socket-closed")).length, 1);
});
