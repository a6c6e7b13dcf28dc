import assert from "node:assert/strict";
import { accepted, HEADER, parse } from "./parse.ts";

function errorsOf(body: string): readonly string[] {
  const line = parse(["--config", "kp.yaml"], { files: { "kp.yaml": HEADER + body } });
  return line.kind === "errors" ? line.errors : [];
}

Deno.test("a number or duration beyond its limits is an error with its line, the value and both limits", () => {
  const table: readonly [string, string][] = [
    ["clientConnection: {burst: -1}", "kp.yaml:3: clientConnection.burst is -1: must be 0 to 2147483647"],
    ["logging: {verbosity: -1}", "kp.yaml:3: logging.verbosity is -1: must be 0 or more"],
    [
      "logging:\n  vmodule:\n  - {filePattern: a, verbosity: 1}\n  - {filePattern: b, verbosity: -1}",
      "kp.yaml:6: logging.vmodule[1].verbosity is -1: must be 0 or more",
    ],
    ["mode: ipvs\nipvs: {tcpTimeout: -1s}", 'kp.yaml:4: ipvs.tcpTimeout is "-1s": must be 0 or more'],
    ["mode: ipvs\nipvs: {tcpFinTimeout: -1s}", 'kp.yaml:4: ipvs.tcpFinTimeout is "-1s": must be 0 or more'],
    [
      "iptables: {syncPeriod: 1ms, minSyncPeriod: 2ms}",
      'kp.yaml:3: iptables.minSyncPeriod is "2ms": must not be longer than syncPeriod, which is 1ms',
    ],
    ["iptables: {minSyncPeriod: -1ms}", 'kp.yaml:3: iptables.minSyncPeriod is "-1ms": must be 0 or more'],
    ["userspace: {udpIdleTimeout: -1s}", 'kp.yaml:3: userspace.udpIdleTimeout is "-1s": must be 0 or more'],
    ["userspace: {maxConnections: 1000001}", "kp.yaml:3: userspace.maxConnections is 1000001: must be 0 to 1000000"],
    ["oomScoreAdj: -1001", "kp.yaml:3: oomScoreAdj is -1001: must be -1000 to 1000"],
    ["conntrack: {tcpCloseWaitTimeout: -1s}", 'kp.yaml:3: conntrack.tcpCloseWaitTimeout is "-1s": must be 0 or more'],
    ["conntrack: {udpStreamTimeout: -1s}", 'kp.yaml:3: conntrack.udpStreamTimeout is "-1s": must be 0 or more'],
    ["failover: {attempts: 1001}", "kp.yaml:3: failover.attempts is 1001: must be 1 to 1000"],
    ["failover: {probes: 11}", "kp.yaml:3: failover.probes is 11: must be 1 to 10"],
    ["failover: {recoveryProbes: 17}", "kp.yaml:3: failover.recoveryProbes is 17: must be 1 to 16"],
    ["failover: {livenessPort: 65536}", "kp.yaml:3: failover.livenessPort is 65536: must be 1 to 65535"],
    ...["interval", "silence", "probeTimeout", "recoveryInterval", "trialInterval"].map((name): [string, string] => [
      `failover: {${name}: 49ms}`,
      `kp.yaml:3: failover.${name} is "49ms": must be 50ms or more`,
    ]),
    ["traffic: {period: 999ms}", 'kp.yaml:3: traffic.period is "999ms": must be 1s to 5m'],
    ["traffic: {period: 300001ms}", 'kp.yaml:3: traffic.period is "5m0.001s": must be 1s to 5m'],
  ];
  for (const [body, error] of table) assert.deepEqual(errorsOf(body), [error], body);
});

Deno.test("limits are values, too", () => {
  const body = "oomScoreAdj: -1000\ntraffic: {period: 5m}\nfailover: {attempts: 1000, silence: 50ms}\n" +
    "iptables: {masqueradeBit: 31, syncPeriod: 1ms, minSyncPeriod: 1ms}\nuserspace: {maxConnections: 1000000}\n";
  const { configuration } = accepted(["--config", "kp.yaml"], { files: { "kp.yaml": HEADER + body } });
  const { oomScoreAdj, traffic, failover, masqueradeBit, userspace } = configuration;
  assert.deepEqual([oomScoreAdj, traffic.periodMs, failover.attempts, failover.silenceMs], [-1000, 300_000, 1000, 50]);
  assert.deepEqual([masqueradeBit, userspace.maxConnections], [31, 1_000_000]);
  assert.deepEqual([configuration.syncPeriodMs, configuration.minSyncPeriodMs], [1, 1]);
});

Deno.test("as in kube-proxy, limits in the sections of ipvs and nftables hold only in their modes", () => {
  assert.deepEqual(errorsOf("nftables: {masqueradeBit: 32}\nipvs: {tcpTimeout: -1s}"), []);
  assert.match(errorsOf("mode: ipvs\niptables: {masqueradeBit: 32}").join(), /iptables\.masqueradeBit is 32/);
});
