import assert from "node:assert/strict";
import { createProblemBoard } from "../../../../core/problems/mod.ts";
import { createLogger, silentLogger } from "../../../../platform/log.ts";
import { createOutageReport } from "../../../../sources/grpc/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function setUp() {
  const clock = createFakeClock();
  const board = createProblemBoard(clock, silentLogger);
  let log: string[] = [];
  const logger = createLogger({
    level: "info",
    format: "text",
    clock,
    write: (line) => log.push(line.slice(25).trim()),
  });
  return {
    outage: createOutageReport(logger, { problems: board.report }),
    problems: () => board.current().map(({ code, subject, detail }) => `${code} ${subject} ${detail}`).sort(),
    logged: () => {
      const lines = log;
      log = [];
      return lines;
    },
  };
}

Deno.test("only when all servers have failed is there a problem, one for each with its own reason", () => {
  const { outage, problems } = setUp();
  outage.watched("a");
  outage.failed("a", "closed", false, "b");
  assert.deepEqual(problems(), []);
  outage.failed("b", "refused", false, 200);
  assert.deepEqual(problems(), ["source-unreachable a closed", "source-unreachable b refused"]);
  outage.failed("a", "refused", false, "b");
  outage.failed("b", "refused", false, 400);
  assert.deepEqual(problems(), ["source-unreachable a refused", "source-unreachable b refused"]);
  outage.watched("b");
  assert.deepEqual(problems(), []);
});

Deno.test("an outage after a success is a new one, with its own lines and problems", () => {
  const { outage, problems, logged } = setUp();
  const lines = ["a", "b"].map((server) => {
    outage.failed("a", "closed", false, "b");
    outage.watched(server);
    return logged().length;
  });
  assert.deepEqual(lines, [2, 2]);
  outage.failed("b", "refused", false, 400);
  assert.deepEqual(problems(), ["source-unreachable b refused"]);
});

Deno.test("an outage is one line for each server and reason, and its end one line with the server in use", () => {
  const { outage, logged } = setUp();
  outage.watched("a");
  outage.watched("a");
  assert.deepEqual(logged(), ["INFO  watching the server server=a"]);
  for (let i = 0; i < 3; i++) {
    outage.failed("a", "closed", false, "b");
    outage.failed("b", "refused", false, 250);
  }
  assert.deepEqual(logged(), [
    "WARN  cannot watch the server, trying the next one server=a reason=closed next=b",
    "WARN  cannot watch the server, retrying; the last state stays in effect server=b reason=refused inSeconds=0.3",
  ]);
  outage.watched("b");
  assert.deepEqual(logged(), ["INFO  watching the server server=b before=a"]);
  outage.failed("b", "GOAWAY", true, "a");
  assert.deepEqual(logged(), [
    "INFO  the server closes the connection, trying the next one server=b reason=GOAWAY next=a",
  ]);
  outage.watched("b");
  assert.match(logged().at(-1)!, /^INFO {2}watching the server again server=b$/);
});
