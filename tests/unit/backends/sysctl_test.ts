import assert from "node:assert/strict";
import { writeSysctls } from "../../../backends/sysctl.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { createFakeRunner } from "../../fakes/runner.ts";

function captured() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const logger = createLogger({ level: "info", format: "json", clock: createFakeClock(), write });
  return { logger, lines };
}

Deno.test("only what differs is written, and two calls are enough", async () => {
  const runner = createFakeRunner({ sysctls: { "net.ipv4.ip_forward": 1, "net.a": 0, "net.b": 0 } });
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [
    { name: "net.ipv4.ip_forward", value: 1 },
    { name: "net.a", value: 1 },
    { name: "net.b", value: 2 },
  ]);
  assert.deepEqual(runner.calls.map(({ args }) => args.join(" ")), [
    "net.ipv4.ip_forward net.a net.b",
    "-w net.a=1 net.b=2",
  ]);
  assert.deepEqual([...runner.sysctls.values()], ["1", "1", "2"]);
  assert.deepEqual(lines.map(({ level, setting, value, before }) => [level, setting, value, before]), [
    ["info", "net.a", 1, "0"],
    ["info", "net.b", 2, "0"],
  ]);
});

Deno.test("nothing is written where all is as it should be, and nothing run where nothing is asked", async () => {
  const runner = createFakeRunner({ sysctls: { "net.a": 1 } });
  const { logger } = captured();
  await writeSysctls(runner, logger, []);
  assert.equal(runner.calls.length, 0);
  await writeSysctls(runner, logger, [{ name: "net.a", value: 1 }]);
  assert.equal(runner.calls.length, 1);
});

Deno.test("a setting that is not there, and one that refuses, are told of and keep no other from being set", async () => {
  const runner = createFakeRunner({ sysctls: { "net.refuses": 5, "net.good": 0 } });
  runner.refusingSysctls.add("net.refuses");
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [
    { name: "net.missing", value: 1 },
    { name: "net.refuses", value: 1 },
    { name: "net.good", value: 1 },
  ]);
  assert.equal(runner.sysctls.get("net.good"), "1");
  assert.deepEqual(lines.map(({ level, setting, error }) => [level, setting, error]), [
    ["warn", "net.missing", "sysctl: cannot stat /proc/sys/net/missing: No such file or directory"],
    ["warn", "net.refuses", 'sysctl: setting key "net.refuses": Invalid argument'],
    ["info", "net.good", undefined],
  ]);
});

Deno.test("without sysctl every setting is told of, and nothing is thrown", async () => {
  const runner = createFakeRunner();
  runner.inject(({ tool }) => tool === "sysctl", { how: "is missing" });
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [{ name: "net.a", value: 1 }, { name: "net.b", value: 1 }]);
  assert.deepEqual(lines.map(({ setting, error }) => [setting, error]), [
    ["net.a", "sysctl is not installed, or not on the PATH"],
    ["net.b", "sysctl is not installed, or not on the PATH"],
  ]);
});
