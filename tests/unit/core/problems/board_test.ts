import assert from "node:assert/strict";
import { createLogger } from "../../../../platform/mod.ts";
import { createProblemBoard, type Problem } from "../../../../core/problems/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const invalid = (subject: string, detail = "port 0"): Problem => ({ code: "object-invalid", subject, detail });
const failed: Problem = { code: "sync-failed", subject: "IPv4", detail: "nft: no space" };

function boardUnderTest() {
  const clock = createFakeClock();
  const lines: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "text",
    clock,
    write: (line) => lines.push(line.slice(25, -1)),
  });
  return { board: createProblemBoard(clock, logger), clock, lines };
}

Deno.test("a problem keeps its first time while it lasts, is counted, and disappears when it is solved", () => {
  const { board, clock } = boardUnderTest();
  const firstMs = clock.now();
  board.report("a", [invalid("Service a")]);
  clock.advance(1000);
  board.report("a", [invalid("Service a", "port 1")]);
  assert.deepEqual(board.current(), [
    { ...invalid("Service a", "port 1"), sinceMs: firstMs, lastMs: firstMs + 1000, count: 2 },
  ]);
  board.report("a", []);
  assert.deepEqual(board.current(), []);
  board.report("a", [invalid("Service a")]);
  assert.deepEqual(board.current().map(({ sinceMs, count }) => [sinceMs, count]), [[firstMs + 1000, 1]]);
});

Deno.test("a scope replaces its own problems and no others", () => {
  const { board } = boardUnderTest();
  board.report("a", [invalid("Service a")]);
  board.report("b", [invalid("Service b"), invalid("Service b2")]);
  board.report("b", [invalid("Service b2")]);
  assert.deepEqual(board.current().map(({ subject }) => subject).sort(), ["Service a", "Service b2"]);
  assert.deepEqual([...board.counts()], [["object-invalid", 2]]);
});

Deno.test("two reports of one code and subject at once are one problem", () => {
  const { board } = boardUnderTest();
  board.report("a", [invalid("Service a", "port 0"), invalid("Service a", "port 1")]);
  assert.deepEqual(board.current().map(({ detail, count }) => [detail, count]), [["port 1", 2]]);
});

Deno.test("errors come first, then the newest problem, and no more than fit on a page", () => {
  const { board, clock } = boardUnderTest();
  board.report("IPv4", [failed], { isLogged: true });
  for (let i = 0; i < 100; i++) {
    clock.advance(1);
    board.report(`s${i}`, [invalid(`Service s${i}`)], { isLogged: true });
  }
  const current = board.current();
  assert.equal(current.length, 64);
  assert.deepEqual(current.slice(0, 2).map(({ subject }) => subject), ["IPv4", "Service s99"]);
  assert.equal(board.counts().get("object-invalid"), 100);
});

Deno.test("an unreadable source comes before the errors that it causes, however old it is", () => {
  const { board, clock } = boardUnderTest();
  board.report("manifests", [{ code: "file-unreadable", subject: "/manifests", detail: "no such file or folder" }]);
  clock.advance(1);
  board.report("node", [{ code: "node-deleted", subject: "Node n", detail: "Node n was deleted" }]);
  assert.deepEqual(board.current().map(({ code }) => code), ["file-unreadable", "node-deleted"]);
});

Deno.test("the number of problems that are kept is bounded, and room is made when one is solved", () => {
  const { board } = boardUnderTest();
  const many = (count: number) => Array.from({ length: count }, (_, i) => invalid(`Service s${i}`));
  board.report("a", many(10_000), { isLogged: true });
  assert.equal(board.counts().get("object-invalid"), 4096);
  board.report("b", [failed], { isLogged: true });
  assert.equal(board.counts().get("sync-failed"), undefined);
  board.report("a", many(10), { isLogged: true });
  board.report("b", [failed], { isLogged: true });
  assert.equal(board.counts().get("sync-failed"), 1);
});

Deno.test("the log has a line when a problem begins, changes or is solved, and none while it lasts", () => {
  const { board, clock, lines } = boardUnderTest();
  board.report("IPv4", [failed]);
  board.report("IPv4", [failed]);
  clock.advance(3000);
  board.report("IPv4", []);
  assert.equal(lines.length, 2);
  assert.match(
    lines[0]!,
    /^ERROR changes of services do not reach the kernel code=sync-failed subject=IPv4 detail="nft: no space" fix=/,
  );
  assert.equal(
    lines[1],
    "INFO  solved: changes of services do not reach the kernel code=sync-failed subject=IPv4 lastedSeconds=3",
  );
  board.report("a", [invalid("Service a")]);
  board.report("a", [invalid("Service a", "port 1")]);
  assert.deepEqual(lines.slice(2).map((line) => line.split(" ")[0]), ["WARN", "WARN"]);
  board.report("b", [invalid("Service b")], { isLogged: true });
  board.report("b", [], { isLogged: true });
  assert.equal(lines.length, 4);
});
