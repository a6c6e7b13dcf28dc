import assert from "node:assert/strict";
import { readSysctl, writeSysctls } from "../../../../backends/host/sysctl.ts";
import { createProblemBoard } from "../../../../core/problems/mod.ts";
import { createLogger, silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeRunner } from "../../../fakes/runner.ts";

function captured() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const logger = createLogger({ level: "info", format: "json", clock: createFakeClock(), write });
  const board = createProblemBoard(createFakeClock(), silentLogger);
  const problems = () => board.current().map(({ code, subject, detail }) => [code, subject, detail]);
  return { logger, lines, onProblems: board.report, problems };
}

const MAX = "net.netfilter.nf_conntrack_max", BUCKETS = "net.netfilter.nf_conntrack_buckets";
const FORWARD = "net.ipv4.ip_forward",
  LOCALNET = "net.ipv4.conf.all.route_localnet",
  ANNOUNCE = "net.ipv4.conf.all.arp_announce";

Deno.test("only differing settings are written, and two calls are enough", async () => {
  const runner = createFakeRunner({ sysctls: { [FORWARD]: 1, [LOCALNET]: 0, [ANNOUNCE]: 0 } });
  const { logger, onProblems, lines } = captured();
  await writeSysctls({ runner, logger, onProblems }, [
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
  const { logger, onProblems } = captured();
  await writeSysctls({ runner, logger, onProblems }, []);
  assert.equal(runner.calls.length, 0);
  await writeSysctls({ runner, logger, onProblems }, [{ name: FORWARD, value: 1 }]);
  assert.equal(runner.calls.length, 1);
});

Deno.test("a setting with a minimum keeps a greater value; only one that may fail fails without a warning", async () => {
  const runner = createFakeRunner({ sysctls: { [MAX]: 400_000, [BUCKETS]: 65_536 } });
  const { logger, onProblems, lines, problems } = captured();
  await writeSysctls({ runner, logger, onProblems }, [{ name: BUCKETS, value: 65_000, atLeast: true }]);
  assert.equal(runner.sysctls.get(BUCKETS), "65536");
  await writeSysctls({ runner, logger, onProblems }, [{ name: BUCKETS, value: 100_000, atLeast: true }]);
  assert.equal(runner.sysctls.get(BUCKETS), "100000");
  runner.refusingSysctls.add(BUCKETS);
  await writeSysctls({ runner, logger, onProblems }, [
    { name: BUCKETS, value: 200_000, atLeast: true, mayFail: true },
    { name: MAX, value: 399_999, atLeast: true },
  ]);
  assert.deepEqual(lines.map(({ level }) => level), ["info", "info"]);
  assert.deepEqual(problems(), []);
  runner.refusingSysctls.add(MAX);
  await writeSysctls({ runner, logger, onProblems }, [{ name: MAX, value: 400_001, atLeast: true }]);
  assert.deepEqual(problems().map(([code, subject]) => [code, subject]), [["kernel-setting-failed", MAX]]);
});

Deno.test("unknown settings and values out of range reach no tool", async () => {
  const runner = createFakeRunner({ sysctls: { "kernel.core_pattern": "core", [FORWARD]: 1, [MAX]: 1000 } });
  const { logger, onProblems, lines, problems } = captured();
  const hostile = [
    { name: "kernel.core_pattern", value: 1 },
    { name: FORWARD, value: 0 },
    { name: MAX, value: 0 },
    { name: MAX, value: 1.5 },
    { name: MAX, value: "1 -p /etc/shadow" as unknown as number },
    { name: "--pattern", value: 1 },
    { name: "constructor", value: 1 },
  ];
  await writeSysctls({ runner, logger, onProblems }, hostile);
  assert.deepEqual(runner.calls, []);
  assert.deepEqual(lines, []);
  assert.deepEqual(
    new Set(problems().map(([, name]) => name)),
    new Set(hostile.map(({ name }) => name)),
  );
});

Deno.test("missing and rejected settings are problems until they can be set, and do not prevent others", async () => {
  const runner = createFakeRunner({ sysctls: { [ANNOUNCE]: 5, [FORWARD]: 0 } });
  runner.refusingSysctls.add(ANNOUNCE);
  const { logger, onProblems, lines, problems } = captured();
  const settings = [{ name: LOCALNET, value: 1 }, { name: ANNOUNCE, value: 2 }, { name: FORWARD, value: 1 }];
  await writeSysctls({ runner, logger, onProblems }, settings);
  assert.equal(runner.sysctls.get(FORWARD), "1");
  assert.deepEqual(lines.map(({ level, setting }) => [level, setting]), [["info", FORWARD]]);
  const missing = "sysctl: cannot stat /proc/sys/net/ipv4/conf/all/route_localnet: No such file or directory";
  assert.deepEqual(problems(), [
    ["kernel-setting-failed", LOCALNET, `1 not set: ${missing}`],
    ["kernel-setting-failed", ANNOUNCE, `2 not set: sysctl: setting key "${ANNOUNCE}": Invalid argument`],
  ]);
  runner.refusingSysctls.clear();
  runner.sysctls.set(LOCALNET, "1");
  await writeSysctls({ runner, logger, onProblems }, settings);
  assert.deepEqual(problems(), []);
});

Deno.test("without sysctl every setting is a problem, and nothing is thrown", async () => {
  const runner = createFakeRunner();
  const end = runner.inject(({ tool }) => tool === "sysctl", { how: "is missing" });
  const { logger, onProblems, problems } = captured();
  await writeSysctls({ runner, logger, onProblems }, [{ name: FORWARD, value: 1 }, { name: LOCALNET, value: 1 }]);
  assert.deepEqual(problems(), [
    ["kernel-setting-failed", FORWARD, "1 not set: sysctl is not installed, or not on the PATH"],
    ["kernel-setting-failed", LOCALNET, "1 not set: sysctl is not installed, or not on the PATH"],
  ]);
  assert.equal(await readSysctl({ runner, logger, onProblems }, ANNOUNCE), undefined);
  assert.equal(problems().length, 3);
  end();
  await readSysctl({ runner, logger, onProblems }, ANNOUNCE);
  assert.equal(problems().length, 2);
});
