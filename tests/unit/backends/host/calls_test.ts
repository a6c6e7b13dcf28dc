/** The calls of the host's tools, word for word, and their answers. */
import assert from "node:assert/strict";
import { deleteUnansweredAttempts, listFlows } from "../../../../backends/host/conntrack_tool.ts";
import { adjustOomScore, judgeOpenFiles, raiseOpenFiles } from "../../../../backends/host/process_limits.ts";
import { findSysctls, isWritten, readSysctl } from "../../../../backends/host/sysctl.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";

/** A runner that notes each call with its input and its time limit, and gives these answers in turn. */
function answering(...answers: readonly Partial<ToolResult>[]) {
  const calls: string[] = [], left = [...answers];
  const runner: Runner = {
    run({ tool, args, stdin, timeoutMs }) {
      const input = stdin === undefined ? "" : ` <<< ${[...stdin].join("").trimEnd()}`;
      calls.push(`${[tool, ...args].join(" ")}${input}${timeoutMs === undefined ? "" : ` (${timeoutMs} ms)`}`);
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "", ...left.shift() });
    },
  };
  return { runner, calls };
}

Deno.test("prlimit reads the limits of open files and raises them, and choom sets the OOM score", async () => {
  const { runner, calls } = answering({ stdout: "1024 4096\n" });
  assert.deepEqual(await raiseOpenFiles(runner, 42), { soft: 4096, hard: 4096 });
  await adjustOomScore(runner, -998);
  assert.deepEqual(calls, [
    "prlimit --nofile --output SOFT,HARD --noheadings --raw (2000 ms)",
    "prlimit --pid 42 --nofile=4096: (2000 ms)",
    `choom -n -998 -p ${Deno.pid} (5000 ms)`,
  ]);
  assert.deepEqual(await raiseOpenFiles(answering({ stdout: "4096 4096\n" }).runner, 42), { soft: 4096, hard: 4096 });
});

Deno.test("4,096 open files are enough, fewer are said to be few", () => {
  const findings = [4_095, 4_096, Infinity].map((hard) => judgeOpenFiles({ soft: 1_024, hard }));
  assert.deepEqual(findings.map(({ name, verdict, message }) => `${name}: ${verdict}: ${message}`), [
    "open files: yellow: only 4095 are allowed here: with many health check node ports, some are not served",
    "open files: green: 4096 are allowed",
    "open files: green: 65536 are allowed",
  ]);
});

Deno.test("sysctl reads one setting by its name, and finds others by a pattern", async () => {
  const name = "net.ipv4.ip_forward", stdout = `${name} = 1\n`;
  const { runner, calls } = answering({ stdout }, { stdout });
  assert.equal(await readSysctl({ runner, logger: silentLogger }, name), "1");
  assert.deepEqual(await findSysctls(runner, "ip_forward$"), new Map([[name, "1"]]));
  assert.deepEqual(calls, [`sysctl ${name} (10000 ms)`, "sysctl -a -r ip_forward$ (10000 ms)"]);
});

/** All sysctls that may be written, with the least and the greatest value. */
const WRITTEN: readonly (readonly [name: string, least: number, greatest: number])[] = [
  ["net.ipv4.conf.all.arp_announce", 2, 2],
  ["net.ipv4.conf.all.arp_ignore", 1, 1],
  ["net.ipv4.conf.all.route_localnet", 0, 1],
  ["net.ipv4.ip_forward", 1, 1],
  ["net.ipv4.vs.conn_reuse_mode", 0, 0],
  ["net.ipv4.vs.conntrack", 1, 1],
  ["net.ipv4.vs.expire_nodest_conn", 1, 1],
  ["net.ipv4.vs.expire_quiescent_template", 1, 1],
  ["net.netfilter.nf_conntrack_acct", 1, 1],
  ["net.netfilter.nf_conntrack_buckets", 1, 2 ** 29 - 1],
  ["net.netfilter.nf_conntrack_max", 1, 2 ** 31 - 1],
  ["net.netfilter.nf_conntrack_tcp_be_liberal", 1, 1],
  ["net.netfilter.nf_conntrack_tcp_timeout_close_wait", 1, 2 ** 31 - 1],
  ["net.netfilter.nf_conntrack_tcp_timeout_established", 1, 2 ** 31 - 1],
  ["net.netfilter.nf_conntrack_udp_timeout", 1, 2 ** 31 - 1],
  ["net.netfilter.nf_conntrack_udp_timeout_stream", 1, 2 ** 31 - 1],
];

Deno.test("each sysctl is written within its bounds only", () => {
  for (const [name, least, greatest] of WRITTEN) {
    const written = [least - 1, least, greatest, greatest + 1].map((value) => isWritten({ name, value }));
    assert.deepEqual(written, [false, true, true, false], name);
  }
});

Deno.test("conntrack lists established connections of TCP, and all flows of UDP", async () => {
  const { runner, calls } = answering();
  for (const protocol of ["tcp", "udp"] as const) {
    for (const isTranslated of [false, true]) {
      await listFlows(protocol, "IPv6", runner, { isTranslated, destination: "[fd00::1]:53" }, () => {});
    }
  }
  assert.deepEqual(calls, [
    "conntrack -L -p tcp --state ESTABLISHED -f ipv6 -d fd00::1 --dport 53",
    "conntrack -L -p tcp --state ESTABLISHED -f ipv6 -d fd00::1 --dport 53 --dst-nat",
    "conntrack -L -p udp -f ipv6 -d fd00::1 --dport 53",
    "conntrack -L -p udp -f ipv6 -d fd00::1 --dport 53 --dst-nat",
  ]);
});

const attempts = (count: number) => Array.from({ length: count }, (_, i) => `10.1.0.${i + 1}:80`);
const deletion = (endpoint: number) => `-D -f ipv4 -p tcp --state SYN_SENT -r 10.1.0.${endpoint} --reply-port-src 80`;

Deno.test("the attempts of up to three endpoints are deleted one by one, those of more all at once", async () => {
  for (
    const [count, input] of [[0, undefined], [3, [1, 2, 3].map(deletion).join("\n")], [
      4,
      "-D -f ipv4 -p tcp --state SYN_SENT --dst-nat",
    ]] as const
  ) {
    const { runner, calls } = answering();
    await deleteUnansweredAttempts("IPv4", runner, attempts(count));
    assert.deepEqual(calls, input === undefined ? [] : [`conntrack --load-file - <<< ${input}`]);
  }
});

Deno.test("without files of commands, conntrack deletes one after the other up to the first failure", async () => {
  const unsupported = { exitCode: 2, stderr: "conntrack v1.4.6 (conntrack-tools): unknown option `--load-file'" };
  const forbidden = { exitCode: 1, stderr: "conntrack v1.4.6: Operation failed: Operation not permitted" };
  const { runner, calls } = answering(unsupported, {}, forbidden, {});
  await assert.rejects(deleteUnansweredAttempts("IPv4", runner, attempts(3)), /Operation not permitted/);
  assert.deepEqual(calls.slice(1), [1, 2].map((endpoint) => `conntrack ${deletion(endpoint)}`));
});

Deno.test("entries that end while they are deleted are passed over, a hundred of them", async () => {
  const absent = { exitCode: 1, stderr: "conntrack v1.4.7: Operation failed: such conntrack doesn't exist" };
  const hundred = answering(...Array(100).fill(absent));
  await deleteUnansweredAttempts("IPv4", hundred.runner, attempts(1));
  const more = answering(...Array(101).fill(absent));
  await assert.rejects(deleteUnansweredAttempts("IPv4", more.runner, attempts(1)), /such conntrack doesn't exist/);
  assert.deepEqual([hundred, more].map(({ calls }) => calls.length), [101, 101]);
});
