/** The lines of the log. */
import assert from "node:assert/strict";
import { createLogger, errorText, fileErrorText, type Level, levelOfVerbosity } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";

function setUp(format: "text" | "json", level: Level = "info") {
  const clock = createFakeClock(), lines: string[] = [];
  const logger = createLogger({ level, format, clock, write: (line) => lines.push(line) });
  return { logger, lines, time: new Date(clock.now()).toISOString() };
}

Deno.test("a line has the time, the level, the message and the fields, and stays one line", () => {
  const { logger, lines, time } = setUp("text");
  logger.info("synced");
  logger.warn("failed, retrying", { family: "IPv4", retryInMs: 5, address: "[::1]:80", missing: undefined });
  logger.error("two\nlines \u001b", { text: 'a "b"\n', list: ["a"], empty: "", error: new Error("no") });
  logger.with({ family: "IPv6" }).with({ mode: "a" }).info("bound", { family: "other" });
  assert.deepEqual(lines, [
    `${time} INFO  synced\n`,
    `${time} WARN  failed, retrying family=IPv4 retryInMs=5 address="[::1]:80"\n`,
    `${time} ERROR two\\nlines \\u001b text="a \\"b\\"\\n" list=["a"] empty="" error=no\n`,
    `${time} INFO  bound family=other mode=a\n`,
  ]);
});

Deno.test("in JSON, a line is an object", () => {
  const { logger, lines, time } = setUp("json");
  logger.with({ family: "IPv4" }).warn("two\nlines", { error: new Error("no"), count: 1, missing: undefined });
  assert.equal(lines.length, 1);
  assert.ok(lines[0]!.endsWith("}\n") && lines[0]!.indexOf("\n") === lines[0]!.length - 1);
  assert.deepEqual(JSON.parse(lines[0]!), {
    ...{ time, level: "warn", message: "two\nlines", family: "IPv4", error: "no", count: 1 },
  });
});

Deno.test("a level includes those that are more severe", () => {
  const levels = ["error", "warn", "info", "debug", "trace"] as const;
  for (const [index, level] of levels.entries()) {
    const { logger, lines } = setUp("json", level);
    for (const one of levels) logger[one](one);
    assert.deepEqual(lines.map((line) => JSON.parse(line).level), levels.slice(0, index + 1));
  }
  assert.deepEqual([0, 2, 3, 4, 5, 6, 10].map(levelOfVerbosity), [
    ...["info", "info", "info", "debug", "debug", "trace", "trace"],
  ]);
});

Deno.test("an error is its message and those of its causes, without the runtime's numbers and functions", () => {
  assert.equal(errorText(new Error("a", { cause: new Error("b", { cause: "c" }) })), "a: b: c");
  assert.equal(errorText("text"), "text");
  assert.equal(errorText(new Error("refused; retrying", { cause: new Error("refused") })), "refused; retrying");
  assert.equal(errorText(new Error("canceled (caused by: refused)", { cause: new Error("refused") })), "refused");
  assert.equal(errorText(new Error("No such file (os error 2): readfile '/x'")), "No such file: '/x'");
  assert.equal(errorText(new Error("Connection refused (os error 111)")), "Connection refused");
});

Deno.test("the error of a file is told without its path to those who name the file", () => {
  assert.equal(fileErrorText(new Error("No such file (os error 2): readfile '/x'")), "No such file");
  assert.equal(fileErrorText(new Error("Is a directory (os error 21): rename '/x' -> '/y'")), "Is a directory");
  assert.equal(fileErrorText(new Error("it has 9 bytes: too many")), "it has 9 bytes: too many");
  const denied = new Error('Requires all access to "/dev/x", specify the required permissions during compilation');
  assert.equal(fileErrorText(denied), "Sluice opens no files below /dev, /proc and /sys");
});
