import assert from "node:assert/strict";
import { isWritten } from "../../../backends/host/sysctl.ts";
import type { FamilyOptions, StartFamily } from "../../../core/channel/family_link.ts";
import { conntrackSettings } from "../../../config/host_settings.ts";
import { runProxy } from "../../../node/run.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { accepted, refused } from "./parse.ts";

const PREFIX = "net.netfilter.nf_conntrack_";

/** `nf_conntrack_max` and the size of its hash table for these flags and number of cores. */
function sizes(cores: number, ...args: string[]): (number | undefined)[] {
  const settings = conntrackSettings(accepted(args).configuration.conntrack, cores);
  const buckets = settings.find(({ name }) => name === `${PREFIX}buckets`);
  const max = settings.find(({ name }) => name === `${PREFIX}max`);
  if (buckets) assert.deepEqual([buckets.atLeast, buckets.mayFail], [true, true]);
  // kube-proxy keeps a greater value since 1.37.
  if (max) assert.deepEqual([max.atLeast, max.mayFail], [true, undefined]);
  return [max?.value, buckets?.value];
}

Deno.test("the conntrack table grows with the cores up to a cap, and its hash table is a quarter of it", () => {
  assert.deepEqual(sizes(2), [131_072, 32_768]);
  assert.deepEqual(sizes(8), [262_144, 65_536]);
  assert.deepEqual(sizes(32), [1_048_576, 262_144]);
  assert.deepEqual(sizes(256), [1_048_576, 262_144]);
  assert.deepEqual(sizes(2, "--conntrack-min", "2000000"), [2_000_000, 500_000]);
  assert.deepEqual(sizes(8, "--conntrack-max-per-core", "0"), [undefined, undefined]);
});

/** The sysctls that a run sets, by family. */
async function settingsOfInit(...args: string[]): Promise<Map<string, FamilyOptions>> {
  const started = new Map<string, FamilyOptions>();
  const startFamily: StartFamily = (options, listener) => {
    started.set(options.family, options);
    queueMicrotask(() => listener.onHealth({ state: "ready" }));
    return {
      send() {},
      call: () => Promise.resolve(undefined),
      compare() {},
      rest: () => false,
      wake() {},
      cleanup: () => Promise.resolve(),
      stop: () => Promise.resolve(),
    };
  };
  const { configuration } = accepted(["--init-only", ...args]);
  const status = await runProxy({
    configuration,
    logger: silentLogger,
    logging: { level: "error", format: "text" },
    clock: createFakeClock(),
    startFamily,
    cores: 4,
    signal: new AbortController().signal,
  });
  assert.equal(status, 0);
  return started;
}

Deno.test("each timeout of a configuration is a sysctl in seconds, rounded up, unless it is 0", () => {
  const timeouts = (...args: string[]) =>
    conntrackSettings(accepted(["--conntrack-max-per-core=0", ...args]).configuration.conntrack, 1)
      .map(({ name, value }) => `${name.slice(PREFIX.length)} ${value}`);
  assert.deepEqual(
    timeouts(
      ...["--conntrack-tcp-timeout-established=1m", "--conntrack-tcp-timeout-close-wait=2s"],
      ...["--conntrack-udp-timeout=2500ms", "--conntrack-udp-timeout-stream=1000h", "--conntrack-tcp-be-liberal"],
    ),
    [
      ...["tcp_timeout_established 60", "tcp_timeout_close_wait 2", "udp_timeout 3", "udp_timeout_stream 3600000"],
      "tcp_be_liberal 1",
    ],
  );
  assert.deepEqual(timeouts("--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"), []);
});

for (
  const [args, routes] of [
    [[], true],
    [["--nodeport-addresses", "127.0.0.0/8,192.0.2.0/24"], true],
    [["--nodeport-addresses", "192.0.2.0/24"], false],
    [["--nodeport-addresses", "primary"], false],
    [["--nodeport-addresses", "2001:db8::/64"], true],
    [["--iptables-localhost-nodeports=false"], false],
    [["--proxy-mode", "nftables"], false],
    [["--proxy-mode", "ipvs"], false],
  ] as const
) {
  Deno.test(`--init-only ${args.join(" ")} ${routes ? "has" : "does not have"} loopback addresses routed`, async () => {
    const started = await settingsOfInit(...args);
    const names = (family: string) => started.get(family)!.kernel.map(({ name }) => name);
    assert.equal(names("IPv4").includes("net.ipv4.conf.all.route_localnet"), routes);
    assert.ok(names("IPv4").includes(`${PREFIX}max`));
    assert.deepEqual(names("IPv6"), []);
    // The proxy started later may lack the privilege.
    assert.equal(started.get("IPv4")!.kernelFirst, true);
  });
}

Deno.test("a worker accepts the sysctls of any configuration", () => {
  const { configuration } = accepted([
    ...["--conntrack-max-per-core", "2147483647", "--conntrack-min", "2147483647"],
    ...["--conntrack-tcp-timeout-established", "2500000h", "--conntrack-udp-timeout", "1ms"],
  ]);
  for (const cores of [1, 1000]) {
    for (const setting of conntrackSettings(configuration.conntrack, cores)) {
      assert.ok(isWritten(setting), JSON.stringify(setting));
    }
  }
});

Deno.test("an interface name that cannot be part of a rule is an error", () => {
  for (const name of ['eth0"', "a b", "-j", "x".repeat(16), "a/b"]) {
    const errors = refused(["--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", name]);
    assert.match(errors.join(), /must be 1 to 15 letters/);
  }
  accepted(["--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth"]);
});
