import assert from "node:assert/strict";
import { createLogger, limitRepeats } from "../../../platform/log.ts";
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

Deno.test("messages that differ only in numbers are equal; names, addresses and ports are no numbers", () => {
  const { taken, logger } = setUp();
  const detail = (text: string) => logger.warn("odd", { detail: text });
  const sentences = [
    "certificate expired {} ago: renew it",
    "{} of 5 tries failed",
    "the table has {} entries",
    "waited {}",
    "limit ({}).",
  ];
  for (const sentence of sentences) {
    for (const number of ["12 s", "13 s", "2 min", "1.5 s", "250ms", "7", "1,234", "0.5"]) {
      detail(sentence.replace("{}", number));
    }
    assert.equal(taken().length, 1, sentence);
  }
  const names = ["192.0.2.1", "192.0.2.2", "192.0.2.2:80", "192.0.2.2:81", "[2001:db8::1]:80", "[2001:db8::2]:80"];
  names.push("IPv4", "IPv6", "web-1", "web-2", "default/1", "default/2", "eth0", "eth1", "10.0.0.0/8", "10.0.0.0/9");
  for (const name of names) detail(`no answer from ${name}`);
  assert.equal(taken().length, names.length);
  for (const seconds of [1, 2]) logger.error("failed", { error: new Error(`no answer within ${seconds} s`) });
  assert.equal(taken().length, 1);
});

Deno.test("what is held back is not logged once its cause is solved", () => {
  const { clock, taken, logger } = setUp();
  const v4 = logger.with({ family: "IPv4" });
  const warn = () => {
    for (const subject of ["a", "b"]) v4.warn("refused", { subject, code: 401 });
  };
  for (let i = 0; i < 3; i++) warn();
  taken();
  v4.solved({ subject: "a" });
  logger.with({ family: "IPv6" }).solved();
  clock.advance(60_000);
  assert.deepEqual(taken(), ["WARN  refused family=IPv4 subject=b code=401 times=2"]);
  for (let i = 0; i < 3; i++) warn();
  assert.equal(taken().length, 1, "the window of b is still open");
  v4.solved();
  warn();
  clock.advance(60_000);
  const both = ["a", "b"].map((subject) => `WARN  refused family=IPv4 subject=${subject} code=401 times=1`);
  assert.deepEqual(taken().sort(), both, "what comes back is logged");
});

Deno.test("what comes back after it was solved is logged at once, or 10 s after the last time", () => {
  const { clock, taken, logger } = setUp();
  const line = "ERROR stopped subject=IPv4";
  const stop = () => logger.error("stopped", { subject: "IPv4" });
  const solve = () => logger.solved({ subject: "IPv4" });
  stop();
  assert.deepEqual(taken(), [line]);
  clock.advance(20_000);
  solve();
  stop();
  assert.deepEqual(taken(), [`${line} times=1`], "at once");
  clock.advance(3_000);
  solve();
  stop();
  clock.advance(6_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), [`${line} times=1`], "10 s after the last time");
  for (let second = 0; second < 60; second += 2) {
    solve();
    stop();
    clock.advance(2_000);
  }
  assert.equal(taken().length, 6, "a flapping cause every 10 s");
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

Deno.test("beyond a bounded number of different problems, each is logged every time", () => {
  const { taken, logger } = setUp();
  for (let i = 0; i < 4_096; i++) logger.warn("odd", { service: `default/s${i}x` });
  assert.equal(taken().length, 4_096);
  for (let times = 0; times < 2; times++) {
    logger.warn("odd", { service: "default/one-more" });
    logger.warn("odd", { service: "default/s0x" });
  }
  assert.deepEqual(taken(), ["WARN  odd service=default/one-more", "WARN  odd service=default/one-more"]);
});
