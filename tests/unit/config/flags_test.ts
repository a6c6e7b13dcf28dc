import assert from "node:assert/strict";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { OPENRC_LOG } from "../../../cli/installation/mod.ts";
import { FLAG_GROUPS, FLAGS, SOURCE_FLAGS } from "../../../config/flag_table.ts";
import {
  boolean,
  choice,
  type CommandSpec,
  type Configuration,
  type Flag,
  option,
  placeholderOf,
  text,
} from "../../../config/mod.ts";
import { accepted, HEADER, helpOf, parse, refused } from "./parse.ts";

Deno.test("the defaults are kube-proxy's, except for minSyncPeriod", () => {
  const { configuration, warnings } = accepted([]);
  assert.deepEqual(warnings, []);
  const expected: Partial<Configuration> = {
    mode: "iptables",
    syncPeriodMs: 30_000,
    minSyncPeriodMs: 0,
    masqueradeAll: false,
    masqueradeBit: 14,
    bindAddress: "0.0.0.0",
    healthzBindAddress: "0.0.0.0:10256",
    metricsBindAddress: "127.0.0.1:10249",
    detectLocalMode: "ClusterCIDR",
    clusterCIDR: {},
    nodePortAddresses: [],
    oomScoreAdj: -999,
    configSyncPeriodMs: 900_000,
    nodeName: "node-a",
    source: { kind: "kube" },
    kubeconfig: undefined,
    master: undefined,
    verbosity: 0,
    loggingFormat: undefined,
    strictConfig: false,
    initOnly: false,
    cleanup: false,
    conntrack: {
      maxPerCore: 32768,
      min: 131072,
      tcpEstablishedTimeoutMs: 86_400_000,
      tcpCloseWaitTimeoutMs: 3_600_000,
      tcpBeLiberal: false,
      udpTimeoutMs: 0,
      udpStreamTimeoutMs: 0,
    },
  };
  for (const [name, value] of Object.entries(expected)) {
    assert.deepEqual(configuration[name as keyof Configuration], value, name);
  }
  assert.equal(configuration.iptables.localhostNodePorts, true);
  assert.deepEqual([configuration.clientConnection.qps, configuration.clientConnection.burst], [5, 10]);
});

Deno.test("each flag sets the same field as in kube-proxy", () => {
  const table: readonly [string[], (c: Configuration) => unknown, unknown][] = [
    [["--kubeconfig=/k"], (c) => c.kubeconfig, "/k"],
    [["--master", "https://10.0.0.1:6443"], (c) => c.master, "https://10.0.0.1:6443"],
    [["--hostname-override", " Node-B "], (c) => c.nodeName, "node-b"],
    [["--init-only"], (c) => c.initOnly, true],
    [["--cleanup"], (c) => c.cleanup, true],
    [["--source=file:/etc/sluice"], (c) => c.source, { kind: "file", path: "/etc/sluice" }],
    [["--source", "kube"], (c) => c.source, { kind: "kube" }],
    [["--proxy-mode", "nftables"], (c) => c.mode, "nftables"],
    [["--bind-address", "010.0.0.1"], (c) => c.bindAddress, "10.0.0.1"],
    [["--bind-address=::"], (c) => [c.healthzBindAddress, c.metricsBindAddress], ["[::]:10256", "[::1]:10249"]],
    [["--healthz-bind-address=1.2.3.4"], (c) => c.healthzBindAddress, "1.2.3.4:10256"],
    [["--healthz-bind-address=[FD00::0:1]:99"], (c) => c.healthzBindAddress, "[fd00::1]:99"],
    [["--metrics-bind-address", "::1"], (c) => c.metricsBindAddress, "[::1]:10249"],
    [["--metrics-bind-address="], (c) => [c.healthzBindAddress, c.metricsBindAddress], ["0.0.0.0:10256", undefined]],
    [["--healthz-bind-address="], (c) => c.healthzBindAddress, "0.0.0.0:10256"],
    [["--healthz-port=0"], (c) => [c.healthzBindAddress, c.metricsBindAddress], [undefined, "127.0.0.1:10249"]],
    [["--metrics-port=0"], (c) => c.metricsBindAddress, undefined],
    [["--healthz-port=99", "--healthz-bind-address=1.2.3.4"], (c) => c.healthzBindAddress, "1.2.3.4:99"],
    [["--healthz-port=99"], (c) => c.healthzBindAddress, "0.0.0.0:10256"],
    [["--bind-address-hard-fail"], (c) => c.bindAddressHardFail, true],
    [["--nodeport-addresses=10.0.0.1/8,fd00::1/64"], (c) => c.nodePortAddresses, ["10.0.0.0/8", "fd00::/64"]],
    [
      ["--nodeport-addresses=10.0.0.0/8", "--nodeport-addresses=11.0.0.0/8"],
      (c) => c.nodePortAddresses,
      ["10.0.0.0/8", "11.0.0.0/8"],
    ],
    [["--nodeport-addresses", "primary"], (c) => c.nodePortAddresses, ["primary"]],
    [["--control-socket=/run/other.sock"], (c) => c.controlSocket, "/run/other.sock"],
    [["--control-socket="], (c) => c.controlSocket, undefined],
    [["--nodeport-addresses", "localhost"], (c) => c.nodePortAddresses, ["localhost"]],
    [["--nodeport-addresses", "all,localhost"], (c) => c.nodePortAddresses, ["all", "localhost"]],
    [["--proxy-mode=nftables", "--nodeport-addresses=all"], (c) => c.nodePortAddresses, ["all"]],
    [
      ["--nodeport-addresses=primary,10.0.0.1/8,localhost,10.0.0.0/8,all"],
      (c) => c.nodePortAddresses,
      ["primary", "10.0.0.0/8", "localhost", "10.0.0.0/8", "all"],
    ],
    [["--nodeport-addresses=127.0.0.1/32,primary"], (c) => c.nodePortAddresses, ["127.0.0.1/32", "primary"]],
    [["--proxy-mode=nftables"], (c) => c.nodePortAddresses, ["primary"]],
    [["--config-sync-period=1m"], (c) => c.configSyncPeriodMs, 60_000],
    [["--show-hidden-metrics-for-version=1.36"], (c) => c.showHiddenMetricsForVersion, "1.36"],
    [["--oom-score-adj", "-1000"], (c) => c.oomScoreAdj, -1000],
    [["--detect-local-mode=NodeCIDR"], (c) => c.detectLocalMode, "NodeCIDR"],
    [["--cluster-cidr=10.1.2.3/16"], (c) => c.clusterCIDR, { IPv4: "10.1.0.0/16" }],
    [["--cluster-cidr=fd00::/8,10.1.0.0/16"], (c) => c.clusterCIDR, { IPv4: "10.1.0.0/16", IPv6: "fd00::/8" }],
    [
      ["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0"],
      (c) => c.detectLocal.bridgeInterface,
      "cni0",
    ],
    [
      ["--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"],
      (c) => c.detectLocal.interfaceNamePrefix,
      "veth",
    ],
    [["--masquerade-all"], (c) => c.masqueradeAll, true],
    [["--masquerade-all", "--proxy-mode=nftables"], (c) => c.masqueradeAll, true],
    [["--masquerade-all", "--proxy-mode=ipvs"], (c) => c.masqueradeAll, true],
    [["--iptables-masquerade-bit=0"], (c) => c.masqueradeBit, 0],
    [["--iptables-masquerade-bit=0x1f", "--proxy-mode=ipvs"], (c) => c.masqueradeBit, 31],
    [["--iptables-localhost-nodeports=false"], (c) => c.iptables.localhostNodePorts, false],
    [["--iptables-sync-period=1m", "--iptables-min-sync-period=0"], (c) => [c.syncPeriodMs, c.minSyncPeriodMs], [
      60_000,
      0,
    ]],
    [["--iptables-sync-period=1m", "--proxy-mode=nftables"], (c) => c.syncPeriodMs, 60_000],
    [["--iptables-sync-period=1m", "--proxy-mode=ipvs"], (c) => c.syncPeriodMs, 30_000],
    [["--ipvs-sync-period=1m", "--ipvs-min-sync-period=2s", "--proxy-mode=ipvs"], (c) => [
      c.syncPeriodMs,
      c.minSyncPeriodMs,
    ], [60_000, 2000]],
    [["--ipvs-sync-period=1m"], (c) => c.syncPeriodMs, 30_000],
    [["--ipvs-scheduler=wrr"], (c) => c.ipvs.scheduler, "wrr"],
    [["--ipvs-exclude-cidrs=10.0.0.1/8"], (c) => c.ipvs.excludeCIDRs, ["10.0.0.0/8"]],
    [["--ipvs-strict-arp"], (c) => c.ipvs.strictARP, true],
    [["--ipvs-tcp-timeout=1s", "--ipvs-tcpfin-timeout=2s", "--ipvs-udp-timeout=3s"], (c) => [
      c.ipvs.tcpTimeoutMs,
      c.ipvs.tcpFinTimeoutMs,
      c.ipvs.udpTimeoutMs,
    ], [1000, 2000, 3000]],
    [["--conntrack-max-per-core=0", "--conntrack-min=1"], (c) => [c.conntrack.maxPerCore, c.conntrack.min], [0, 1]],
    [["--conntrack-tcp-timeout-established=0s"], (c) => c.conntrack.tcpEstablishedTimeoutMs, 0],
    [["--conntrack-tcp-timeout-close-wait=1m"], (c) => c.conntrack.tcpCloseWaitTimeoutMs, 60_000],
    [["--conntrack-tcp-be-liberal"], (c) => c.conntrack.tcpBeLiberal, true],
    [["--conntrack-udp-timeout=5s", "--conntrack-udp-timeout-stream=6s"], (c) => [
      c.conntrack.udpTimeoutMs,
      c.conntrack.udpStreamTimeoutMs,
    ], [5000, 6000]],
    [["--logging-format=json"], (c) => c.loggingFormat, "json"],
    [["--feature-gates=A=true,B=false", "--feature-gates=B=true"], (c) => c.featureGates, { A: true, B: true }],
  ];
  for (const [args, read, expected] of table) {
    assert.deepEqual(read(accepted(args).configuration), expected, args.join(" "));
  }
});

Deno.test("flags follow Go's syntax", () => {
  for (const args of [["-v=4"], ["-v", "4"], ["-v4"], ["--v=4"], ["--v", "4"], ["run", "-v", "4"]]) {
    assert.equal(accepted(args).configuration.verbosity, 4, args.join(" "));
  }
  for (const word of ["1", "t", "T", "true", "True", "TRUE"]) {
    assert.equal(accepted([`--masquerade-all=${word}`]).configuration.masqueradeAll, true, word);
  }
  for (const word of ["0", "f", "F", "false", "False", "FALSE"]) {
    assert.equal(accepted([`--masquerade-all=${word}`]).configuration.masqueradeAll, false, word);
  }
  assert.deepEqual(accepted(["--cluster_cidr=10.0.0.0/8"]).configuration.clusterCIDR, { IPv4: "10.0.0.0/8" });
  assert.equal(accepted(["-v=1", "-v=2"]).configuration.verbosity, 2, "the last one counts");
  assert.match(refused(["--masquerade-all", "false"]).join(), /unexpected argument "false"/);
});

Deno.test("an invalid flag is refused with its name and the allowed values", () => {
  const table: readonly [string[], RegExp][] = [
    [["--bogus"], /unknown flag --bogus; see --help/],
    [["--iptables-masqerade-bit=1"], /unknown flag --iptables-masqerade-bit; did you mean --iptables-masquerade-bit\?/],
    [["-config=x"], /unknown flag -config; did you mean --config\?/],
    [["frobnicate"], /unknown command "frobnicate"; see sluice --help for all commands/],
    [["--config"], /--config needs a value/],
    [["--masquerade-all=maybe"], /--masquerade-all is "maybe": must be true or false/],
    [["--conntrack-min=many"], /--conntrack-min is "many": must be a 32-bit integer/],
    [["--conntrack-min=4294967296"], /--conntrack-min is "4294967296": must be a 32-bit integer/],
    [["--conntrack-min=-1"], /--conntrack-min is -1: must be 0 to/],
    [["--conntrack-max-per-core=-1"], /--conntrack-max-per-core is -1: must be 0 to/],
    [["--conntrack-tcp-timeout-established=-1s"], /--conntrack-tcp-timeout-established is "-1s": must be 0 or more/],
    [["--conntrack-udp-timeout=-1s"], /--conntrack-udp-timeout is "-1s": must be 0 or more/],
    [["--iptables-sync-period=5"], /--iptables-sync-period is "5": must be a duration such as/],
    [["--iptables-sync-period=0"], /--iptables-sync-period is "0s": must be greater than 0/],
    [["--iptables-min-sync-period=-1s"], /--iptables-min-sync-period is "-1s": must be 0 or more/],
    [
      ["--iptables-min-sync-period=1m"],
      /--iptables-min-sync-period is "1m0s": must not be longer than syncPeriod, .*30s/,
    ],
    [["--iptables-masquerade-bit=32"], /--iptables-masquerade-bit is 32: must be 0 to 31/],
    [["--oom-score-adj=1001"], /--oom-score-adj is 1001: must be -1000 to 1000/],
    [["--config-sync-period=0s"], /--config-sync-period is "0s": must be greater than 0/],
    [["--kube-api-qps=fast"], /--kube-api-qps is "fast": must be a number/],
    [["--kube-api-burst=-1"], /--kube-api-burst is -1: must be 0 to/],
    [["--feature-gates=A"], /--feature-gates is "A": must be name=true/],
    [["--feature-gates=A=perhaps"], /--feature-gates is .*must be name=true/],
    [["--proxy-mode=iptable"], /--proxy-mode is "iptable": must be iptables, nftables, ipvs.*did you mean iptables\?/],
    [["--proxy-mode=kernelspace"], /--proxy-mode is "kernelspace": .*Windows.*must be iptables/],
    [["--bind-address=here"], /--bind-address is "here": must be an IP address/],
    [
      ["--healthz-bind-address=localhost:1"],
      /--healthz-bind-address is "localhost:1": must be IP:port with a valid IP/,
    ],
    [["--healthz-bind-address=1.2.3.4:0"], /--healthz-bind-address is .*port from 1 to 65535/],
    [["--metrics-bind-address=1.2.3.4:http"], /--metrics-bind-address is .*port from 1 to 65535/],
    [["--metrics-bind-address=1.2.3:1:2"], /--metrics-bind-address is .*must be IP:port/],
    [["--cluster-cidr=10.0.0.0"], /--cluster-cidr is "10.0.0.0": must be a CIDR, or one of each family/],
    [["--cluster-cidr=10.0.0.0/8,11.0.0.0/8"], /--cluster-cidr is .*one of each family/],
    [["--cluster-cidr=10.0.0.0/8,fd00::/8,fd01::/8"], /--cluster-cidr is .*one of each family/],
    [
      ["--nodeport-addresses=10.0.0.0"],
      /--nodeport-addresses is "10.0.0.0": must be a CIDR .*primary, localhost, all$/,
    ],
    [["--nodeport-addresses=::1"], /--nodeport-addresses is "::1": must be a CIDR/],
    [["--nodeport-addresses=10.0.0.0/0,1.2.3"], /--nodeport-addresses is "1.2.3": must be a CIDR/],
    [["--nodeport-addresses=127.0.0.1/32,0,primary"], /--nodeport-addresses is "0": must be a CIDR/],
    [["--nodeport-addresses=::1/128,2001:db8:xyz/64"], /--nodeport-addresses is "2001:db8:xyz\/64": must be a CIDR/],
    [["--nodeport-addresses=Localhost"], /--nodeport-addresses is "Localhost": .*; did you mean localhost\?/],
    [["--nodeport-addresses=primary,locahost"], /--nodeport-addresses is "locahost": .*; did you mean localhost\?/],
    [["--nodeport-addresses=all,all"], /--nodeport-addresses is "all": is listed already/],
    [["--nodeport-addresses=primary,10.0.0.0/8,primary"], /--nodeport-addresses is "primary": is listed already/],
    [["--ipvs-exclude-cidrs=x", "--proxy-mode=ipvs"], /--ipvs-exclude-cidrs is "x": must be a CIDR/],
    [["--ipvs-udp-timeout=-1s", "--proxy-mode=ipvs"], /--ipvs-udp-timeout is "-1s": must be 0 or more/],
    [
      ["--detect-local-mode=nodecidr"],
      /--detect-local-mode is "nodecidr": must be ClusterCIDR, .*did you mean NodeCIDR\?/,
    ],
    [["--detect-local-mode=BridgeInterface"], /--pod-bridge-interface is "": .*needs the name of a bridge/],
    [["--detect-local-mode=InterfaceNamePrefix"], /--pod-interface-name-prefix is "": .*needs a prefix/],
    [["--show-hidden-metrics-for-version=1.34"], /--show-hidden-metrics-for-version is "1.34": must be 1.36, 1.35 or/],
    [["--show-hidden-metrics-for-version=1.37"], /--show-hidden-metrics-for-version is "1.37": must be 1.36, 1.35 or/],
    [["--logging-format=xml"], /--logging-format is "xml": must be text or json/],
    [["-v=-1"], /--v is -1: must be 0 or more/],
    [
      ["--source=etcd"],
      /--source is "etcd": must be kube, file:PATH, state:PATH, grpc:\/\/HOST:PORT\[,HOST:PORT…\] or unix:\/\/PATH/,
    ],
    [
      ["--source=file:"],
      /--source is "file:": must be kube, file:PATH, state:PATH, grpc:\/\/HOST:PORT\[,HOST:PORT…\] or unix:\/\/PATH/,
    ],
    [["--hostname-override= "], /--hostname-override: the node must have a name/],
    [["--config=missing.yaml"], /--config: cannot read missing.yaml: no such file/],
  ];
  for (const [args, message] of table) {
    const errors = refused(args);
    assert.equal(errors.length, 1, `${args.join(" ")}: ${errors.join("\n")}`);
    assert.match(errors[0]!, message);
  }
});

Deno.test("all errors are reported at once", () => {
  const errors = refused([
    "--bogus",
    "--conntrack-min=x",
    "--oom-score-adj=5000",
    "--source=x",
    "--config-sync-period",
  ]);
  assert.equal(errors.length, 5, errors.join("\n"));
});

Deno.test("kube-proxy's flags without effect here are accepted with one warning", () => {
  const { warnings } = accepted([
    "--profiling",
    "--vmodule=a=1",
    "--kube-api-qps=5",
    "--log_dir=/tmp",
    "--logtostderr",
    "--log-text-info-buffer-size=64Ki",
    "--log-text-split-stream",
    "--config-sync-period=1m",
  ]);
  assert.equal(warnings.length, 1, warnings.join("\n"));
  for (
    const name of [
      "profiling",
      "vmodule",
      "kube-api-qps",
      "log-dir",
      "logtostderr",
      "log-text-split-stream",
      "config-sync-period",
    ]
  ) {
    assert(warnings[0]!.includes(`--${name}`), name);
  }
});

Deno.test("a warning names the replacement of a deprecated flag", () => {
  assert.deepEqual(accepted(["--healthz-port=10256"]).warnings, [
    "--healthz-port is deprecated: use --healthz-bind-address",
  ]);
});

Deno.test("the host name is trimmed and in lower case", () => {
  assert.equal(accepted([], { hostname: " Worker-1.Example " }).configuration.nodeName, "worker-1.example");
});

Deno.test("the configuration is deeply frozen", () => {
  const { configuration } = accepted(["--nodeport-addresses=10.0.0.0/8"]);
  const walk = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    assert(Object.isFrozen(value), JSON.stringify(value));
    Object.values(value).forEach(walk);
  };
  walk(configuration);
});

Deno.test("version and help", () => {
  for (const args of [["--version"], ["--version=raw"], ["run", "--version"]]) {
    const command = parse(args);
    assert(command.kind === "version");
    assert.match(command.text, /^Sluice \d+\.\d+\.\d+ \(behaves as kube-proxy v1\.\d+\.\d+, Deno \d+\.\d+\.\d+\)$/);
  }
  assert.equal(parse(["--version=false"]).kind, "start");
  for (const args of [["run", "--help"], ["help", "run"], ["run", "-h"]]) {
    const help = helpOf(args);
    for (const { name } of FLAGS) assert(new RegExp(`--${name}\\s`).test(help), name);
  }
  assert.match(refused(["--version", "--bogus"]).join(), /--bogus/);
});

Deno.test("the help of every command lists the flags of the source", () => {
  const names = FLAGS.map(({ name }) => name);
  assert.deepEqual(SOURCE_FLAGS.filter((name) => !names.includes(name)), [], "each is a flag");
  const chosen = names.filter((name) => /^(source|local|kubeconfig|master|api-client-.*)$/.test(name));
  assert.deepEqual(chosen.filter((name) => !SOURCE_FLAGS.includes(name)), []);
});

Deno.test("the placeholder of a flag shows its allowed values if they are short, and otherwise its type", () => {
  const table: readonly [Flag, string][] = [
    [choice("a", ["text", "json"], ""), "<text|json>"],
    [choice("a", ["x".repeat(12), "y".repeat(11)], ""), `<${"x".repeat(12)}|${"y".repeat(11)}>`],
    [choice("a", ["x".repeat(12), "y".repeat(12)], ""), "<text>"],
    [option("a", boolean(), ""), "[true|false]"],
    [option("a", text(), ""), "<text>"],
  ];
  for (const [flag, placeholder] of table) assert.equal(placeholderOf(flag), placeholder);
});

const TELL: CommandSpec = {
  name: "tell",
  summary: "Tell a story.",
  arguments: [{ name: "WHAT", description: "the kind of story", required: true }, {
    name: "WHOM",
    description: "the listener",
  }],
  flags: [option("loud", boolean(), "Tell it loudly."), option("output", text(), "text or json.", "o")],
  examples: {
    "sluice tell joke me": "tells me a joke",
  },
};

Deno.test("a command accepts its arguments, its own flags and those of run", () => {
  const given = { commands: [...COMMANDS, TELL] };
  const command = parse(["tell", "-o", "json", "joke", "--loud", "--hostname-override=n", "me"], given);
  assert(command.kind === "start", JSON.stringify(command));
  assert.equal(command.command, "tell");
  assert.deepEqual(command.arguments, ["joke", "me"]);
  assert.equal(command.flags.get("output"), "json");
  assert.equal(command.flags.get("loud"), true);
  assert.equal(command.configuration.nodeName, "n");
  assert.match(refused(["tell"], given).join(), /tell needs WHAT: the kind of story/);
  assert.match(
    refused(["tell", "a", "b", "c"], given).join(),
    /unexpected argument "c": sluice tell WHAT \[WHOM\] \[flags\]/,
  );
  assert.match(refused(["tel"], given).join(), /unknown command "tel"; did you mean tell\?/);
  assert.match(refused(["tell", "x", "--lout"], given).join(), /unknown flag --lout; did you mean --loud\?/);
});

Deno.test("the program's help fits a screen and lists every command; a command's help lists its flags and examples", () => {
  const given = { commands: [...COMMANDS, TELL] };
  for (const args of [["--help"], ["-h"], ["help"]]) {
    const program = helpOf(args, given);
    assert.match(program, /\n {2}tell +Tell a story\.\n/);
    assert(program.split("\n").length <= 40, "too long for a screen");
  }
  const tell = helpOf(["tell", "--help"], given);
  for (
    const part of [
      "Usage: sluice tell WHAT [WHOM] [flags]",
      "the kind of story",
      "-o, --output <text>",
      "--source",
      "sluice tell joke me",
    ]
  ) {
    assert(tell.includes(part), `${part} in ${tell}`);
  }
  assert(!tell.includes("--conntrack-min"));
});

Deno.test("the help of run lists every flag in its group, with those without effect at the end", () => {
  const help = helpOf(["run", "--help"]);
  const titles = FLAG_GROUPS.map(({ title }) => help.indexOf(`\n${title}:\n`));
  assert(titles.every((at, i) => at > 0 && (i === 0 || at > titles[i - 1]!)), titles.join());
  for (const { name, effective } of FLAGS) {
    assert.equal(new RegExp(`^ +(-v, )?--${name} [<[]`, "m").test(help), effective, name);
    assert(help.includes(`--${name}`), name);
  }
  assert(help.indexOf("--vmodule") > help.indexOf("--logging-format"));
});

Deno.test("an unknown value is refused with the nearest allowed one", () => {
  const table: readonly [string[], RegExp][] = [
    [["get", "servces"], /"servces": must be services or endpoints; did you mean services\?/],
    [["get", "services", "-o", "jsn"], /--output is "jsn": must be table or json or yaml or name; did you mean json\?/],
    [["render", "--family=ipv6"], /--family is "ipv6": must be IPv4 or IPv6; did you mean IPv6\?/],
    [["--proxy-mode", "nftable"], /--proxy-mode is "nftable".*did you mean nftables\?/],
    [["--logging-format", "jason"], /--logging-format is "jason": must be text or json; did you mean json\?/],
    [["explian", "1.2.3.4:5"], /unknown command "explian"; did you mean explain\?/],
    [["logs", "-f"], new RegExp(`"logs"; .*journalctl -u sluice .*, tail ${OPENRC_LOG} .* kubectl logs `)],
    [["cluster", "logs"], /"logs": must be status .*journalctl -u sluice /],
    [["constructor"], /unknown command "constructor"; see sluice --help/],
  ];
  for (const [args, expected] of table) assert.match(refused(args).join("\n"), expected, args.join(" "));
});

Deno.test("every command has a one-line summary and valid examples", () => {
  for (const { name, summary, examples } of COMMANDS) {
    assert.match(summary, /^[A-Z].*\.$/, name);
    assert(Object.keys(examples).length > 0, name);
    for (const line of Object.keys(examples)) {
      const [program, ...args] = line.replace(/^kubectl sluice /, "sluice cluster ").split(" ");
      assert.equal(program, "sluice");
      const files = Object.fromEntries(args.map((arg) => [arg, HEADER]));
      const command = parse(args, { files });
      assert.equal(
        command.kind,
        "start",
        `${line}: ${command.kind === "errors" ? command.errors.join() : command.kind}`,
      );
    }
  }
});

Deno.test("every command has a help, and each of its flags once", () => {
  for (const { name, flags } of COMMANDS) {
    assert.match(helpOf([name, "--help"]), new RegExp(`^Usage: sluice.*\\b${name}\\b`), name);
    assert.equal(flags.length, new Set(flags.map(({ name }) => name)).size, name);
  }
});

Deno.test("a command's own flag replaces the one of run, and does not change the configuration", () => {
  const { configuration, warnings } = accepted(
    ["serve", "--config", "f", "--healthz-bind-address", "127.0.0.1:1", "--metrics-bind-address="],
    { files: { f: `${HEADER}healthzBindAddress: 127.0.0.1:2\n` } },
  );
  assert.deepEqual(warnings, []);
  assert.equal(configuration.healthzBindAddress, "127.0.0.1:2");
  assert.equal(configuration.metricsBindAddress, "127.0.0.1:10249");
});

Deno.test("failures of endpoints are detected in nftables mode only, with the thresholds of the file", () => {
  const on = ["--endpoint-failure-detection"];
  assert.equal(accepted(["--proxy-mode=nftables", ...on]).configuration.failover.endpointFailureDetection, true);
  assert.equal(accepted(["--proxy-mode=nftables"]).configuration.failover.endpointFailureDetection, false);
  for (const mode of ["iptables", "ipvs", "userspace"]) {
    assert.match(
      refused([`--proxy-mode=${mode}`, ...on]).join("\n"),
      /--endpoint-failure-detection.* use mode nftables/,
    );
  }
  const file = (failover: string) => ({ files: { "f.yaml": `${HEADER}mode: nftables\nfailover: {${failover}}\n` } });
  const { failover } = accepted(["--config=f.yaml"], file("attempts: 9, silence: 2s")).configuration;
  assert.deepEqual([failover.attempts, failover.silenceMs, failover.probes], [9, 2_000, 5]);
  for (
    const wrong of [
      "attempts: -1",
      "probes: 11",
      "livenessPort: 70000",
      "probeTimeout: 10ms",
      "recoveryProbes: 17",
    ]
  ) {
    assert.match(refused(["--config=f.yaml"], file(wrong)).join("\n"), /failover\.\w+.* must be/);
  }
});

Deno.test("a warning says what of the traffic a mode does not count", () => {
  const warningsOf = (mode: string) => accepted(["--proxy-mode", mode, "--traffic-metrics"]).warnings;
  assert.deepEqual(warningsOf("nftables"), []);
  assert.match(
    warningsOf("iptables")[0]!,
    /^--traffic-metrics in mode iptables counts no packets, bytes or unanswered/,
  );
  assert.match(warningsOf("ipvs").at(-1)!, /^--traffic-metrics in mode ipvs counts no failures: /);
  assert.deepEqual(accepted(["--proxy-mode", "iptables"]).warnings, []);
});
