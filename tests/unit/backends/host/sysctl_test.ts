import assert from "node:assert/strict";
import { writeSysctls } from "../../../../backends/host/sysctl.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeRunner } from "../../../fakes/runner.ts";

function captured() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const logger = createLogger({ level: "info", format: "json", clock: createFakeClock(), write });
  return { logger, lines };
}

const MAX = "net.netfilter.nf_conntrack_max", BUCKETS = "net.netfilter.nf_conntrack_buckets";
const FORWARD = "net.ipv4.ip_forward",
  LOCALNET = "net.ipv4.conf.all.route_localnet",
  ANNOUNCE = "net.ipv4.conf.all.arp_announce";

Deno.test("only differing settings are written, and two calls are enough", async () => {
  const runner = createFakeRunner({ sysctls: { [FORWARD]: 1, [LOCALNET]: 0, [ANNOUNCE]: 0 } });
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [
    { name: FORWARD, value: 1 },
    { name: LOCALNET, value: 1 },
    { name: ANNOUNCE, value: 2 },
  ]);
  assert.deepEqual(runner.calls.map(({ args }) => args.join(" ")), [
    `${FORWARD} ${LOCALNET} ${ANNOUNCE}`,
    `-w ${LOCALNET}=1 ${ANNOUNCE}=2`,
  ]);
  assert.deepEqual([...runner.sysctls.values()], ["1", "1", "2"]);
  assert.deepEqual(lines.map(({ level, setting, value, before }) => [level, setting, value, before]), [
    ["info", LOCALNET, 1, "0"],
    ["info", ANNOUNCE, 2, "0"],
  ]);
});

Deno.test("nothing is written if all settings are right, and nothing runs if none is requested", async () => {
  const runner = createFakeRunner({ sysctls: { [FORWARD]: 1 } });
  const { logger } = captured();
  await writeSysctls(runner, logger, []);
  assert.equal(runner.calls.length, 0);
  await writeSysctls(runner, logger, [{ name: FORWARD, value: 1 }]);
  assert.equal(runner.calls.length, 1);
});

Deno.test("a setting with a minimum keeps a greater value without a warning", async () => {
  const runner = createFakeRunner({ sysctls: { [MAX]: 400_000, [BUCKETS]: 65_536 } });
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [{ name: BUCKETS, value: 65_000, atLeast: true }]);
  assert.equal(runner.sysctls.get(BUCKETS), "65536");
  await writeSysctls(runner, logger, [{ name: BUCKETS, value: 100_000, atLeast: true }]);
  assert.equal(runner.sysctls.get(BUCKETS), "100000");
  runner.refusingSysctls.add(BUCKETS);
  await writeSysctls(runner, logger, [{ name: BUCKETS, value: 200_000, atLeast: true }]);
  assert.deepEqual(lines.map(({ level }) => level), ["info", "info"]);
});

Deno.test("unknown settings and values out of range reach no tool", async () => {
  const runner = createFakeRunner({ sysctls: { "kernel.core_pattern": "core", [FORWARD]: 1, [MAX]: 1000 } });
  const { logger, lines } = captured();
  const hostile = [
    { name: "kernel.core_pattern", value: 1 },
    { name: FORWARD, value: 0 },
    { name: MAX, value: 0 },
    { name: MAX, value: 1.5 },
    { name: MAX, value: "1 -p /etc/shadow" as unknown as number },
    { name: "--pattern", value: 1 },
    { name: "constructor", value: 1 },
  ];
  await writeSysctls(runner, logger, hostile);
  assert.deepEqual(runner.calls, []);
  assert.equal(lines.length, hostile.length);
});

Deno.test("missing and rejected settings are logged and do not prevent others from being set", async () => {
  const runner = createFakeRunner({ sysctls: { [ANNOUNCE]: 5, [FORWARD]: 0 } });
  runner.refusingSysctls.add(ANNOUNCE);
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [
    { name: LOCALNET, value: 1 },
    { name: ANNOUNCE, value: 2 },
    { name: FORWARD, value: 1 },
  ]);
  assert.equal(runner.sysctls.get(FORWARD), "1");
  assert.deepEqual(lines.map(({ level, setting, error }) => [level, setting, error]), [
    ["warn", LOCALNET, "sysctl: cannot stat /proc/sys/net/ipv4/conf/all/route_localnet: No such file or directory"],
    ["warn", ANNOUNCE, `sysctl: setting key "${ANNOUNCE}": Invalid argument`],
    ["info", FORWARD, undefined],
  ]);
});

Deno.test("without sysctl every setting is logged, and nothing is thrown", async () => {
  const runner = createFakeRunner();
  runner.inject(({ tool }) => tool === "sysctl", { how: "is missing" });
  const { logger, lines } = captured();
  await writeSysctls(runner, logger, [{ name: FORWARD, value: 1 }, { name: LOCALNET, value: 1 }]);
  assert.deepEqual(lines.map(({ setting, error }) => [setting, error]), [
    [FORWARD, "sysctl is not installed, or not on the PATH"],
    [LOCALNET, "sysctl is not installed, or not on the PATH"],
  ]);
});
