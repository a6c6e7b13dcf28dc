import assert from "node:assert/strict";
import { silentLogger } from "../../../../platform/mod.ts";
import { createObjectProblems, createProblemBoard } from "../../../../core/problems/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function objectsUnderTest() {
  const board = createProblemBoard(createFakeClock(), silentLogger);
  return {
    objects: createObjectProblems(board.report, "Service"),
    subjects: () => board.current().map(detailOf).sort(),
  };
}

function detailOf({ subject, detail }: { readonly subject: string; readonly detail: string }): string {
  return `${subject}: ${detail}`;
}

Deno.test("the sentences of an object are one problem, which ends when the object is fine or gone", () => {
  const { objects, subjects } = objectsUnderTest();
  objects.set("a", "Service a", ["port 0", "port 1"]);
  objects.set("b", "Service b", ["port 2"]);
  assert.deepEqual(subjects(), ["Service a: port 0; port 1", "Service b: port 2"]);
  objects.set("a", "Service a", []);
  objects.delete("b");
  assert.deepEqual(subjects(), []);
});

Deno.test("a list ends the problems of objects that it does not have, and keeps those of unchanged ones", () => {
  const { objects, subjects } = objectsUnderTest();
  for (const key of ["gone", "same", "new"]) objects.set(key, key, ["bad"]);
  const endList = objects.startList();
  objects.confirm("same");
  objects.set("new", "new", ["worse"]);
  endList();
  assert.deepEqual(subjects(), ["new: worse", "same: bad"]);
});
