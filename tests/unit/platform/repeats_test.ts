import assert from "node:assert/strict";
import { createLogger } from "../../../platform/log.ts";
import { limitRepeats } from "../../../platform/repeats.ts";
import { createFakeClock } from "../../fakes/clock.ts";

function setUp() {
  const clock = createFakeClock();
  const lines: string[] = [];
  const logger = createLogger({
    level: "debug",
    format: "text",
    clock,
    write: (line) => lines.push(line.trim().slice(25)),
  });
  const taken = () => lines.splice(0);
  return { clock, taken, logger: limitRepeats(logger, clock) };
}

Deno.test("a repeated problem is logged at once, then once a minute with a count", () => {
  const { clock, taken, logger } = setUp();
  const warn = (waitMs: number) => logger.warn("no answer", { kind: "Node", error: new Error("refused"), waitMs });
  warn(1);
  assert.deepEqual(taken(), ["WARN  no answer kind=Node error=refused waitMs=1"]);
  for (let i = 2; i <= 30; i++) {
    clock.advance(1000);
    warn(i);
  }
  assert.deepEqual(taken(), []);
  clock.advance(60_000);
  assert.deepEqual(taken(), ["WARN  no answer kind=Node error=refused waitMs=30 times=29"]);
  warn(31);
  assert.deepEqual(taken(), [], "still in the same minute");
  clock.advance(60_000);
  assert.deepEqual(taken(), ["WARN  no answer kind=Node error=refused waitMs=31 times=1"]);
  clock.advance(120_000);
  assert.deepEqual(taken(), [], "a problem that stopped is not logged");
  warn(32);
  assert.equal(taken().length, 1);
  assert.equal(clock.pending().length, 1);
});

Deno.test("problems differ by message, level, non-numeric fields and bound fields", () => {
  const { taken, logger } = setUp();
  const v4 = logger.with({ family: "IPv4" }), v6 = logger.with({ family: "IPv6" });
  for (let i = 0; i < 2; i++) {
    v4.error("failed", { service: "default/a" });
    v6.error("failed", { service: "default/a" });
    v6.error("failed", { service: "default/b" });
    v6.warn("failed", { service: "default/b" });
  }
  assert.deepEqual(taken(), [
    "ERROR failed family=IPv4 service=default/a",
    "ERROR failed family=IPv6 service=default/a",
    "ERROR failed family=IPv6 service=default/b",
    "WARN  failed family=IPv6 service=default/b",
  ]);
});

Deno.test("info and debug messages are never suppressed", () => {
  const { taken, logger } = setUp();
  for (let i = 0; i < 3; i++) logger.info("synced");
  for (let i = 0; i < 3; i++) logger.with({ a: 1 }).debug("synced");
  assert.equal(taken().length, 6);
});

Deno.test("flush logs suppressed messages with their bound fields", () => {
  const { taken, logger } = setUp();
  const v4 = logger.with({ family: "IPv4" });
  for (let i = 0; i < 3; i++) v4.warn("odd");
  logger.warn("once");
  taken();
  logger.flush();
  assert.deepEqual(taken(), ["WARN  odd family=IPv4 times=2"]);
  logger.flush();
  assert.deepEqual(taken(), []);
});
