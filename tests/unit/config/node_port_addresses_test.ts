/** The addresses of this node that serve node ports, by configuration and node state. */
import assert from "node:assert/strict";
import type { Family } from "../../../core/model/mod.ts";
import { KINDS } from "../../../core/objects/cluster_object.ts";
import { createLedger } from "../../../core/channel/mod.ts";
import { type ServedFamilyListener, serveFamily } from "../../../node/served_family.ts";
import { createTracking } from "../../../core/tracking/trackers.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createTopic } from "../../../platform/topic.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { node, service } from "../../fakes/cluster_objects.ts";
import { createFakeFamilyLink } from "../../fakes/family_link.ts";
import { accepted } from "./parse.ts";
import { initSettings, usesRelay } from "../../../config/mod.ts";
import { FAMILIES } from "../../../platform/address.ts";
import { sayProblems } from "../../fakes/problems.ts";

/** A family served with these flags on a node with these addresses, and a service with a node port. */
function served(family: Family, args: readonly string[], addresses: readonly string[] | undefined, nodePort = 30080) {
  const clock = createFakeClock();
  const { configuration } = accepted(["--hostname-override", "here", ...args]);
  const problems: string[] = [];
  const onProblems = sayProblems((where, message) => problems.push(`${where}: ${message}`));
  const { bindAddress } = configuration;
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: "here",
    bindAddress,
    clock,
    onChange() {},
    onProblems,
  });
  const clusterIPs = ["10.96.0.1", "fd00:10:96::1"];
  tracking.set(service("default/web", { clusterIPs, ports: [{ name: "http", protocol: "tcp", port: 80, nodePort }] }));
  if (addresses) tracking.set(node("here", { addresses }));
  const link = createFakeFamilyLink();
  const options = {
    configuration,
    logger: silentLogger,
    logging: { level: "info", format: "text" },
    clock,
    startFamily: (_: unknown, listener: Parameters<typeof link.connect>[0]) => link.connect(listener),
    cores: 4,
    controlSocket: undefined,
    signal: new AbortController().signal,
  } as const;
  const listener: ServedFamilyListener = {
    ...{ planned: createTopic(), reported: createTopic(), healthChanged: createTopic() },
    onHealthChecks() {},
    onBalanceLimit() {},
    onProblems,
  };
  const ledger = createLedger(clock), otherHasServicePorts = () => true;
  const one = serveFamily({ family, tracking, options, listener, ledger, otherHasServicePorts });
  const apply = () => {
    const changes = tracking.take();
    one.configure();
    one.apply(changes);
  };
  apply();
  const settings = () => one.basis.settings();
  return { settings, prefixes: () => settings().nodePortPrefixes, problems, tracking, apply };
}

Deno.test("primary is the node's own address; if unknown, no address of the family serves and a problem is reported", () => {
  const primary = ["--nodeport-addresses", "primary"];
  for (const args of [["--proxy-mode", "nftables"], ["--proxy-mode", "iptables", ...primary]]) {
    const known = served("IPv4", args, ["192.168.1.1"]);
    assert.deepEqual([known.prefixes(), known.problems], [["192.168.1.1/32"], []]);

    for (const [family, addresses] of [["IPv4", undefined], ["IPv4", []], ["IPv6", ["192.168.1.1"]]] as const) {
      const { prefixes, problems } = served(family, args, addresses);
      assert.deepEqual(prefixes(), []);
      assert.equal(problems.length, 1);
      assert.match(
        problems[0]!,
        new RegExp(`Node here \\(${family}\\): .*30080 of default/web:http.*no ${family} address`),
      );
    }
    const bound = [...args, "--bind-address", "10.1.2.3"];
    assert.deepEqual(served("IPv4", bound, undefined).prefixes(), ["10.1.2.3/32"]);
    // A KPNG server sends no addresses of the Node.
    assert.deepEqual(served("IPv6", bound, []).prefixes(), []);
  }
});

Deno.test("node ports move to the node's address when it becomes known; without a node port no problem is reported", () => {
  const { prefixes, problems, tracking, apply } = served("IPv4", ["--proxy-mode", "nftables"], undefined);
  tracking.set(node("here", { addresses: ["192.168.1.1"] }));
  apply();
  assert.deepEqual(prefixes(), ["192.168.1.1/32"]);
  assert.equal(problems.length, 1);
  assert.deepEqual(served("IPv6", ["--proxy-mode", "nftables"], ["192.168.1.1"], 0).problems, []);
});

Deno.test("a keyword stands for prefixes of both families, beside other keywords and prefixes", () => {
  const both = ["192.168.1.1", "fd00::1"];
  const table: readonly [given: string, IPv4: readonly string[] | undefined, IPv6: readonly string[] | undefined][] = [
    ["10.0.0.0/8,fd01::/64", ["10.0.0.0/8"], ["fd01::/64"]],
    ["primary", ["192.168.1.1/32"], ["fd00::1/128"]],
    ["localhost", ["127.0.0.0/8"], ["::1/128"]],
    ["all", ["0.0.0.0/0"], ["::/0"]],
    ["primary,localhost", ["192.168.1.1/32", "127.0.0.0/8"], ["fd00::1/128", "::1/128"]],
    ["localhost,10.0.0.0/8", ["127.0.0.0/8", "10.0.0.0/8"], ["::1/128"]],
    ["10.0.0.0/8", ["10.0.0.0/8"], undefined],
  ];
  for (const [given, ...expected] of table) {
    const args = ["--proxy-mode", "nftables", "--nodeport-addresses", given];
    assert.deepEqual(FAMILIES.map((family) => served(family, args, both).prefixes()), expected, given);
  }
});

Deno.test("without a primary address, the others serve; a problem is reported unless other hosts reach one of them", () => {
  const table: readonly [given: string, IPv6: readonly string[], hasProblem: boolean][] = [
    ["primary", [], true],
    ["primary,localhost", ["::1/128"], true],
    ["primary,10.0.0.0/8", [], true],
    ["primary,fd00::/64", ["fd00::/64"], false],
    ["primary,all", ["::/0"], false],
    ["localhost", ["::1/128"], false],
  ];
  for (const [given, expected, hasProblem] of table) {
    const args = ["--proxy-mode", "nftables", "--nodeport-addresses", given];
    const { prefixes, problems } = served("IPv6", args, ["192.168.1.1"]);
    assert.deepEqual(prefixes(), expected, given);
    assert.equal(problems.length, hasProblem ? 1 : 0, given);
  }
});

for (
  const [expected, ...args] of [
    [true],
    [true, "--nodeport-addresses", "all"],
    [true, "--nodeport-addresses", "primary,localhost"],
    [true, "--nodeport-addresses", "0.0.0.0/0"],
    [true, "--nodeport-addresses", "192.168.2.0/24,127.0.0.0/8"],
    [true, "--nodeport-addresses", "127.0.0.2/32"],
    [true, "--nodeport-addresses", "2001:db8::/64"],
    [false, "--nodeport-addresses", "192.168.1.1/32"],
    [false, "--nodeport-addresses", "primary"],
    [false, "--iptables-localhost-nodeports=false"],
    [false, "--proxy-mode", "nftables", "--nodeport-addresses", "0.0.0.0/0"],
    [false, "--proxy-mode", "ipvs"],
  ] as const
) {
  Deno.test(`loopback addresses ${expected ? "serve" : "do not serve"} node ports with ${args.join(" ") || "no flags"}`, () => {
    const iptables = args.some((arg) => arg === "--proxy-mode") ? [] : ["--proxy-mode", "iptables"];
    assert.equal(served("IPv4", [...iptables, ...args], ["192.168.1.1"]).settings().localhostNodePorts, expected);
    assert.equal(served("IPv6", [...iptables, ...args], ["192.168.1.1"]).settings().localhostNodePorts, false);
  });
}

const GATE = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts";

for (
  const [IPv4, IPv6, ...args] of [
    [true, true, "userspace"],
    [true, true, "userspace", "--nodeport-addresses", "0.0.0.0/0,::/0"],
    [false, true, "userspace", "--nodeport-addresses", "192.168.1.1/32"],
    [true, true, "userspace", "--nodeport-addresses", "192.168.1.1/32,127.0.0.1/32"],
    [false, false, "userspace", "--iptables-localhost-nodeports=false"],
    [true, false, "nftables", "--nodeport-addresses", "127.0.0.0/8"],
    [true, true, "nftables", "--nodeport-addresses", "localhost"],
    [true, true, "nftables", "--nodeport-addresses", "primary,localhost"],
    [true, true, "nftables", "--nodeport-addresses", "all,localhost"],
    [false, false, "nftables", "--nodeport-addresses", "all"],
    [false, false, "nftables", "--nodeport-addresses", "all,192.168.1.1/32"],
    [false, true, "nftables", "--nodeport-addresses", "::1/128"],
    [true, true, "nftables", "--nodeport-addresses", "localhost", `${GATE}=true`],
    [false, false, "nftables", "--nodeport-addresses", "localhost", `${GATE}=false`],
    [true, true, "ipvs", "--nodeport-addresses", "localhost", `${GATE}=false`],
    [true, true, "ipvs", "--nodeport-addresses", "all,localhost"],
    [true, true, "ipvs", "--nodeport-addresses", "192.168.0.0/16,127.0.0.1/32,::1/128"],
    [false, false, "ipvs", "--nodeport-addresses", "127.0.0.2/32"],
    [false, false, "nftables", "--nodeport-addresses", "0.0.0.0/0,::/0"],
    [true, false, "nftables", "--nodeport-addresses", "127.0.0.0/8,0.0.0.0/0"],
    [true, false, "nftables", "--nodeport-addresses", "0.0.0.0/0,127.0.0.0/8"],
    [false, false, "nftables", "--nodeport-addresses", "192.168.1.1/32"],
    // kube-proxy would serve 127.0.0.1, which is not configured.
    [false, false, "nftables", "--nodeport-addresses", "127.0.0.2/32"],
    [false, false, "nftables"],
  ] as const
) {
  const [mode, ...more] = args;
  Deno.test(`the relay serves node ports at localhost in IPv4 (${IPv4}) and IPv6 (${IPv6}) with ${args.join(" ")}`, () => {
    const given = ["--proxy-mode", mode!, ...more];
    const at = (family: Family) => served(family, given, ["192.168.1.1"]).settings().localhostNodePorts;
    assert.deepEqual([at("IPv4"), at("IPv6")], [IPv4, IPv6]);
    const { configuration } = accepted(given);
    const isNeeded = mode === "userspace" ? [true, true] : [IPv4, IPv6];
    assert.deepEqual(FAMILIES.map((family) => usesRelay(family, configuration)), isNeeded);
    assert.equal(initSettings(configuration).length, 0, "no kernel setting is needed");
  });
}
