import { describeMode } from "../../../backends/mod.ts";
import { readConfigurationFile } from "../../../config/file.ts";
import { defaultSettings } from "../../../config/kube_proxy_configuration.ts";
import { FEATURE_FIELDS } from "../../../features/mod.ts";
import { loadYaml } from "../../../platform/mod.ts";
import { defaultsOf, type Field, type Fields, valueName } from "../../../platform/schema/mod.ts";
import assert from "node:assert/strict";
import { type Configuration, relaySettings } from "../../../config/mod.ts";
import { accepted, beyondEffect, fromFile, HEADER, refused } from "./parse.ts";

const { parseTree } = await loadYaml();

function loaded(body: string, args: readonly string[] = []) {
  return accepted(["--config", "kp.yaml", ...args], { files: { "kp.yaml": HEADER + body } });
}

function errorsOf(body: string, args: readonly string[] = []) {
  return refused(["--config", "kp.yaml", ...args], { files: { "kp.yaml": HEADER + body } });
}

Deno.test("every field of the file is read", () => {
  const { configuration, warnings } = loaded(`
featureGates: {A: true}
clientConnection: {kubeconfig: /k, acceptContentTypes: a, contentType: b, qps: 0.5, burst: 7}
logging:
  format: text
  flushFrequency: 5000000000
  verbosity: 4
  vmodule: [{filePattern: a*, verbosity: 3}]
  options: {json: {splitStream: true, infoBufferSize: 64Ki}, text: {infoBufferSize: 0}}
hostnameOverride: Node-X
bindAddress: "::"
healthzBindAddress: 0.0.0.0:1
metricsBindAddress: "::"
bindAddressHardFail: true
enableProfiling: true
showHiddenMetricsForVersion: "1.35"
mode: ipvs
iptables: {masqueradeBit: 3, masqueradeAll: true, localhostNodePorts: false, syncPeriod: 2s, minSyncPeriod: 1ms}
ipvs:
  syncPeriod: 20s
  minSyncPeriod: 2s
  scheduler: rr
  excludeCIDRs: [10.0.0.9/8]
  strictARP: true
  tcpTimeout: 1s
  tcpFinTimeout: 2s
  udpTimeout: 3s
nftables: {masqueradeBit: 4, masqueradeAll: false, syncPeriod: 4s, minSyncPeriod: 2s}
userspace: { maxConnections: 7, udpIdleTimeout: 8s }
balance: { algorithm: consistent-hash, affinityHash: client, nodeLabels: [example.com/rack], podLabels: [version] }
site: {name: north, leaseNamespace: edge, leaseDuration: 40s, renewPeriod: 20s, listenAddress: "10.0.0.1:1",
  advertiseAddress: h,
  tlsCAFile: ca, tlsCertFile: crt, tlsPrivateKeyFile: key}
winkernel: {networkName: net, sourceVip: v, enableDSR: true, rootHnsEndpointName: r, forwardHealthCheckVip: true}
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: br0, interfaceNamePrefix: veth}
clusterCIDR: 10.0.0.0/8,fd00::/8
nodePortAddresses: [192.168.0.0/16]
oomScoreAdj: 0
conntrack:
  maxPerCore: 0
  min: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 1m
  tcpBeLiberal: true
  udpTimeout: 5s
  udpStreamTimeout: 6s
configSyncPeriod: 1m
portRange: 1-2
windowsRunAsService: true
`);
  assert.deepEqual(beyondEffect(warnings), []);
  const expected: Configuration = {
    ...defaultsOf(FEATURE_FIELDS),
    modeDescription: describeMode("ipvs"),
    featureGates: { A: true },
    clientConnection: { kubeconfig: "/k", acceptContentTypes: "a", contentType: "b", qps: 0.5, burst: 7 },
    logging: {
      format: "text",
      flushFrequencyMs: 5000,
      verbosity: 4,
      vmodule: [{ filePattern: "a*", verbosity: 3 }],
      options: {
        text: { splitStream: false, infoBufferSize: "0" },
        json: { splitStream: true, infoBufferSize: "64Ki" },
      },
    },
    hostnameOverride: "Node-X",
    bindAddress: "::",
    healthzBindAddress: "0.0.0.0:1",
    metricsBindAddress: "[::]:10249",
    bindAddressHardFail: true,
    enableProfiling: true,
    showHiddenMetricsForVersion: "1.35",
    mode: "ipvs",
    iptables: {
      masqueradeBit: 3,
      masqueradeAll: true,
      localhostNodePorts: false,
      syncPeriodMs: 2000,
      minSyncPeriodMs: 1,
    },
    ipvs: {
      syncPeriodMs: 20_000,
      minSyncPeriodMs: 2000,
      scheduler: "rr",
      excludeCIDRs: ["10.0.0.0/8"],
      strictARP: true,
      tcpTimeoutMs: 1000,
      tcpFinTimeoutMs: 2000,
      udpTimeoutMs: 3000,
    },
    nftables: { masqueradeBit: 4, masqueradeAll: false, syncPeriodMs: 4000, minSyncPeriodMs: 2000 },
    userspace: { maxConnections: 7, udpIdleTimeoutMs: 8000 },
    balance: {
      algorithm: "consistent-hash",
      affinityHash: "client",
      nodeLabels: ["example.com/rack"],
      podLabels: ["version"],
    },
    site: {
      name: "north",
      leaseNamespace: "edge",
      leaseDurationMs: 40_000,
      renewPeriodMs: 20_000,
      listenAddress: "10.0.0.1:1",
      advertiseAddress: "h",
      tlsCAFile: "ca",
      tlsCertFile: "crt",
      tlsPrivateKeyFile: "key",
    },
    winkernel: {
      networkName: "net",
      sourceVip: "v",
      enableDSR: true,
      rootHnsEndpointName: "r",
      forwardHealthCheckVip: true,
    },
    detectLocalMode: "BridgeInterface",
    detectLocal: { bridgeInterface: "br0", interfaceNamePrefix: "veth" },
    clusterCIDR: { IPv4: "10.0.0.0/8", IPv6: "fd00::/8" },
    forms: configuration.forms,
    nodePortAddresses: ["192.168.0.0/16"],
    oomScoreAdj: 0,
    conntrack: {
      maxPerCore: 0,
      min: 0,
      tcpEstablishedTimeoutMs: 0,
      tcpCloseWaitTimeoutMs: 60_000,
      tcpBeLiberal: true,
      udpTimeoutMs: 5000,
      udpStreamTimeoutMs: 6000,
    },
    configSyncPeriodMs: 60_000,
    portRange: "1-2",
    windowsRunAsService: true,
    syncPeriodMs: 20_000,
    minSyncPeriodMs: 2000,
    masqueradeAll: true,
    masqueradeBit: 3,
    nodeName: "node-x",
    source: { kind: "kube" },
    kubeconfig: "/k",
    serviceProxyName: undefined,
    maxMessageBytes: 4_194_304,
    master: undefined,
    controlSocket: "/run/sluice/control.sock",
    stateDirectory: undefined,
    runtimeSocket: undefined,
    stateDelayMs: undefined,
    verbosity: 4,
    loggingFormat: "text",
    strictConfig: false,
    initOnly: false,
    cleanup: false,
  };
  assert.deepEqual(configuration, expected);
});

/** A value of a field that is not its default: as it is given in a file, and as it is read. */
function otherThanDefault(field: Field): { readonly given: unknown; readonly read: unknown } {
  const same = (value: unknown) => ({ given: value, read: value });
  switch (field.kind) {
    case "section":
      return allOtherThanDefault(field.fields);
    case "boolean":
      return same(!field.initial);
    case "text":
      return same("a");
    case "texts":
      return same(["a", "b"]);
    case "integer":
      return same(field.initial + 1);
    case "duration":
      return { given: `${field.initial + 1}ms`, read: field.initial + 1 };
    default:
      throw new Error(`no example of kind ${field.kind}`);
  }
}

function allOtherThanDefault(fields: Fields) {
  const given: Record<string, unknown> = {}, read: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    const example = otherThanDefault(field);
    given[name] = example.given;
    read[valueName(name, field)] = example.read;
  }
  return { given, read };
}

Deno.test("every field of every feature is read", () => {
  const { given, read } = allOtherThanDefault(FEATURE_FIELDS);
  const meta = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };
  const content = JSON.stringify({ ...meta, ...given });
  const { settings, errors, warnings } = readConfigurationFile("c.json", content, true, parseTree);
  assert.deepEqual([errors, warnings], [[], []]);
  assert.deepEqual(settings, { ...defaultSettings(), ...read });
});

Deno.test("numbers are read, and lines end, as in YAML 1.1", () => {
  for (const end of ["\n", "\r\n", "\u0085", "\u2028", "\u2029"]) {
    const { configuration } = loaded(`# comment${end}conntrack: {maxPerCore: 010}`);
    assert.equal(configuration.conntrack.maxPerCore, 8);
  }
});

Deno.test("the booleans of YAML 1.1 are booleans", () => {
  for (
    const [words, expected] of [["y yes Yes YES on On ON true", true], ["n no No NO off Off OFF false", false]] as const
  ) {
    for (const word of words.split(" ")) {
      assert.equal(loaded(`iptables: {masqueradeAll: ${word}}`).configuration.masqueradeAll, expected, word);
    }
  }
});

Deno.test("null, empty and zero values mean the default where they do in kube-proxy", () => {
  const table: readonly [string, (c: Configuration) => unknown, unknown][] = [
    ["mode: ''", (c) => c.mode, "iptables"],
    ["mode:", (c) => c.mode, "iptables"],
    ["iptables: null", (c) => c.syncPeriodMs, 30_000],
    ["iptables: {masqueradeBit: null}", (c) => c.masqueradeBit, 14],
    ["iptables: {syncPeriod: 0s}", (c) => [c.syncPeriodMs, c.minSyncPeriodMs], [30_000, 0]],
    // kube-proxy treats 0s as its default of 1s.
    ["iptables: {minSyncPeriod: 0s}", (c) => [c.minSyncPeriodMs], [0]],
    ["mode: nftables\nnftables: {minSyncPeriod: 0s}", (c) => [c.minSyncPeriodMs], [0]],
    ["mode: nftables\nnftables: {minSyncPeriod: 1s}", (c) => [c.minSyncPeriodMs], [1000]],
    ["mode: ipvs", (c) => [c.syncPeriodMs, c.minSyncPeriodMs], [30_000, 0]],
    ["mode: nftables", (c) => [c.syncPeriodMs, c.minSyncPeriodMs], [30_000, 0]],
    ["clientConnection: {qps: 0, burst: 0}", (c) => [c.clientConnection.qps, c.clientConnection.burst], [5, 10]],
    ["nodePortAddresses: null", (c) => c.nodePortAddresses, []],
    ["metricsBindAddress: ''", (c) => c.metricsBindAddress, "127.0.0.1:10249"],
    ["conntrack: {maxPerCore: null, min: 0}", (c) => [c.conntrack.maxPerCore, c.conntrack.min], [32768, 0]],
    ["bindAddress: 'fd00::1'", (c) => c.healthzBindAddress, "[::]:10256"],
    ["enableProfiling: yes", (c) => c.enableProfiling, true],
  ];
  for (const [body, read, expected] of table) {
    const { configuration, warnings } = loaded(body);
    assert.deepEqual(read(configuration), expected, body);
    assert.deepEqual(beyondEffect(warnings), [], body);
  }
});

Deno.test("JSON files are read", () => {
  const json = JSON.stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    iptables: { minSyncPeriod: "10ms" },
    conntrack: { maxPerCore: 1 },
  });
  const { configuration } = accepted(["--config=c.json"], { files: { "c.json": json } });
  assert.deepEqual([configuration.minSyncPeriodMs, configuration.conntrack.maxPerCore], [10, 1]);
});

Deno.test("anchors and aliases are resolved", () => {
  const { configuration } = loaded("iptables: &x {syncPeriod: 1m}\nnftables: *x\nmode: nftables");
  assert.equal(configuration.syncPeriodMs, 60_000);
});

Deno.test("merge keys are resolved, and a section's own fields take precedence", () => {
  const { configuration, warnings } = loaded(
    "iptables: &x {syncPeriod: 1m, minSyncPeriod: 2s}\nnftables: {<<: *x, minSyncPeriod: 3s}\nmode: nftables",
  );
  assert.deepEqual([configuration.syncPeriodMs, configuration.minSyncPeriodMs], [60_000, 3000]);
  assert.deepEqual(warnings, []);
});

Deno.test("an unknown or repeated field is a warning with file, line and the nearest name, and an error if strict", () => {
  const table: readonly [string, RegExp][] = [
    ["mod: iptables", /^kp\.yaml:3: unknown field mod; did you mean mode\?$/],
    [
      "iptables:\n  masquradeAll: true",
      /^kp\.yaml:4: unknown field iptables\.masquradeAll; did you mean masqueradeAll\?$/,
    ],
    ["\nmasqueradeAll: true", /^kp\.yaml:4: unknown field masqueradeAll; did you mean iptables\.masqueradeAll\?$/],
    ["conntrack: {tcpbeliberal: true}", /unknown field conntrack\.tcpbeliberal; did you mean tcpBeLiberal\?/],
    ["constructor: 1", /^kp\.yaml:3: unknown field constructor/],
    [
      "logging: {vmodule: [{filePatern: a, filePattern: b}]}",
      /unknown field logging\.vmodule\[0\]\.filePatern; did you/,
    ],
    ["oomScoreAdj: 1\noomScoreAdj: 2", /^kp\.yaml:3: oomScoreAdj is set again below; the last one counts$/],
    ["oomScoreAdj: 2\n---\noomScoreAdj: 1", /^kp\.yaml:\d: only the first document of the file is read$/],
  ];
  for (const [body, message] of table) {
    const { warnings } = loaded(body);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(warnings[0]!, message);
    assert.match(errorsOf(body, ["--strict-config"])[0]!, message);
  }
  assert.equal(loaded("oomScoreAdj: 1\noomScoreAdj: 2").configuration.oomScoreAdj, 2);
  assert.equal(loaded("iptables: {masqueradeBit: 1}\niptables: {masqueradeAll: true}").configuration.masqueradeBit, 14);
});

Deno.test("each of many unknown fields is a warning, the first hundred with a suggestion", () => {
  const { warnings } = loaded(Array.from({ length: 300 }, (_, i) => `mod${i}: 1`).join("\n"));
  assert.equal(warnings.length, 300);
  assert.equal(warnings.filter((warning) => warning.endsWith("; did you mean mode?")).length, 100);
});

Deno.test("a value of the wrong type is an error with file and line", () => {
  const table: readonly [string, RegExp][] = [
    ["hostnameOverride: 12", /^kp\.yaml:3: hostnameOverride is 12: must be a string/],
    ["enableProfiling: 1", /^kp\.yaml:3: enableProfiling is 1: must be true or false/],
    ["iptables:\n  masqueradeBit: '14'", /^kp\.yaml:4: iptables\.masqueradeBit is "14": must be a 32-bit integer/],
    ["oomScoreAdj: 1.5", /oomScoreAdj is 1\.5: must be a 32-bit integer/],
    ["oomScoreAdj: 3000000000", /oomScoreAdj is 3000000000: must be a 32-bit integer/],
    ["clientConnection: {qps: fast}", /clientConnection\.qps is "fast": must be a number/],
    ["configSyncPeriod: 30", /configSyncPeriod is 30: must be a duration such as/],
    ["configSyncPeriod: soon", /configSyncPeriod is "soon": must be a duration/],
    ["iptables: []", /iptables is a list: must be a section/],
    ["nodePortAddresses: 10.0.0.0/8", /nodePortAddresses is "10.0.0.0\/8": must be a list of strings/],
    ["nodePortAddresses:\n- 10.0.0.0/8\n- 7", /^kp\.yaml:5: nodePortAddresses\[1\] is 7: must be a string/],
    ["featureGates: {A: 1}", /featureGates\.A is 1: must be true or false/],
    ["featureGates: x", /featureGates is "x": must be a map of names/],
    ["logging: {vmodule: {}}", /logging\.vmodule is a section: must be a list/],
    ["logging: {vmodule: [a]}", /logging\.vmodule\[0\] is "a": must be a section/],
    ["logging: {options: {json: {infoBufferSize: big}}}", /infoBufferSize is "big": must be a quantity/],
    ["mode: {a: b}", /mode is a section: must be a string/],
  ];
  for (const [body, message] of table) assert.match(errorsOf(body)[0]!, message, body);
});

Deno.test("a value out of range is an error with file and line", () => {
  const table: readonly [string, RegExp][] = [
    ["mode: kernelspace", /^kp\.yaml:3: mode is "kernelspace": .*Windows/],
    ["iptables:\n  masqueradeBit: 32", /^kp\.yaml:4: iptables\.masqueradeBit is 32: must be 0 to 31/],
    ["mode: nftables\nnftables: {masqueradeBit: -1}", /^kp\.yaml:4: nftables\.masqueradeBit is -1: must be 0 to 31/],
    ["iptables: {syncPeriod: -1s}", /iptables\.syncPeriod is "-1s": must be greater than 0/],
    ["configSyncPeriod: -1s", /configSyncPeriod is "-1s": must be greater than 0/],
    ["nodePortAddresses:\n- 10.0.0.0/8\n- x", /^kp\.yaml:5: nodePortAddresses\[1\] is "x": must be a CIDR/],
    ["logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}", /logging\.vmodule .*logging\.format text/],
    [
      "logging: {vmodule: [{filePattern: 'a=b'}]}",
      /logging\.vmodule\[0\]\.filePattern is "a=b": must not be empty or contain/,
    ],
    ["canary:\n  addressRanges: [x]", /^kp\.yaml:4: canary\.addressRanges\[0\] is "x": must be a CIDR/],
    ["canary: {addressRanges: [169.254.0.0/16]}", /must not overlap 169\.254\.169\.0\/24, which other programs/],
    ["canary: {addressRanges: [169.254.238.1/32]}", /must have more than one address/],
    ["canary: {addressRanges: ['fe80::/64']}", /must not be link-local/],
    [
      "canary: {addressRanges: [10.1.0.0/24, 10.2.0.0/24]}",
      /\[1\] is "10\.2\.0\.0\/24": must be the only range of IPv4/,
    ],
    ["canary: {interval: 100ms}", /canary\.interval is "100ms": must be 500ms or longer/],
    ["canary: {interval: 1s, timeout: 2s}", /canary\.timeout is "2s": must not be longer than canary\.interval/],
    ["detectLocalMode: BridgeInterface", /^kp\.yaml: detectLocal\.bridgeInterface is "": .*needs the name of a bridge/],
    ["detectLocalMode: InterfaceNamePrefix", /^kp\.yaml: detectLocal\.interfaceNamePrefix is "": .*needs a prefix/],
  ];
  for (const [body, message] of table) {
    const errors = errorsOf(body);
    assert.match(errors[0]!, message, body);
  }
});

Deno.test("the port range is the relay's of userspace mode; elsewhere it has no effect, and an invalid one is a warning", () => {
  for (const range of ["9-3", "a lot", "1-70000", "-", "60000+6000"]) {
    const { warnings } = loaded(`portRange: "${range}"`);
    assert.match(
      warnings.join("\n"),
      /^kp\.yaml:3: portRange is ".*", which is not a port range; the field has no effect in iptables mode/,
    );
    assert.match(
      errorsOf(`mode: userspace\nportRange: "${range}"`)[0]!,
      /portRange is ".*": must be a port range such as/,
    );
  }
  const portsOf = (body: string) => {
    const { configuration, warnings } = loaded(body);
    assert.deepEqual(warnings, []);
    return relaySettings("IPv4", configuration)?.ports;
  };
  for (
    const [range, first, last] of [
      ["300-2000", 300, 2000],
      [" 300+20 ", 300, 320],
      ["300", 300, 300],
    ] as const
  ) assert.deepEqual(portsOf(`mode: userspace\nportRange: "${range}"`), { first, last });
  for (const range of ["", "0", "0-0"]) {
    assert.equal(portsOf(`mode: userspace\nportRange: "${range}"`), undefined, range);
  }
  const localhost = `mode: nftables\nnodePortAddresses: ["127.0.0.0/8"]\n`;
  assert.equal(portsOf(`${localhost}portRange: 300-2000`), undefined, "node ports decide");
});

Deno.test("a warning names fields without effect that are not at their default", () => {
  const { warnings } = loaded("configSyncPeriod: 1m\nenableProfiling: true\nclientConnection: {qps: 5, burst: 20}");
  assert.deepEqual(warnings, [
    "kp.yaml:3: configSyncPeriod, kp.yaml:4: enableProfiling, kp.yaml:5: clientConnection.burst: " +
    "accepted, but has no effect in Sluice",
  ]);
  assert.deepEqual(loaded("configSyncPeriod: 0s\nclientConnection: {qps: 0, contentType: ''}").warnings, []);
});

Deno.test("settings of other modes are not validated, as in kube-proxy", () => {
  loaded("nftables: {masqueradeBit: 99, syncPeriod: -1s}\nipvs: {udpTimeout: -1s, excludeCIDRs: [x]}");
  loaded("detectLocalMode: NodeCIDR\nclusterCIDR: nonsense");
});

Deno.test("types, ranges and unknown flags are reported together", () => {
  const errors = errorsOf("iptables: {syncPeriod: 5}\noomScoreAdj: 2000\nbindAddress: x", ["--bogus"]);
  assert.equal(errors.length, 4, errors.join("\n"));
});

Deno.test("a file that is not a configuration is refused", () => {
  const table: readonly [string, RegExp][] = [
    ["", /^f: the file is empty/],
    ["- a\n", /^f: must be a KubeProxyConfiguration, not a list/],
    ["kind: KubeProxyConfiguration\n", /^f: apiVersion is missing: must be kubeproxy\.config\.k8s\.io\/v1alpha1/],
    [HEADER.replace("v1alpha1", "v1alpha9"), /^f:1: apiVersion is "kubeproxy\.config\.k8s\.io\/v1alpha9": must be/],
    [HEADER.replace("KubeProxy", "Kubelet"), /^f:2: kind is "KubeletConfiguration": must be KubeProxyConfiguration/],
    [HEADER + "a: [\n", /^f:\d: not YAML: /],
    [HEADER + "a: b: c\n", /^f:3: not YAML: /],
    ["<html>\n", /^f: must be a KubeProxyConfiguration, not "<html>"/],
    [HEADER + "iptables: *nowhere\n", /^f:3: unknown alias \*nowhere/],
  ];
  for (const [content, message] of table) {
    assert.match(refused(["--config=f"], { files: { f: content } })[0]!, message, content);
  }
});

Deno.test("a list with an unknown alias is refused as a list, too", () => {
  assert.deepEqual(refused(["--config=f"], { files: { f: "- *nowhere\n" } }), [
    "f:1: unknown alias *nowhere",
    "f: must be a KubeProxyConfiguration, not a list",
  ]);
});

Deno.test("malformed YAML is not reported as an empty file", () => {
  const errors = refused(["--config=f"], { files: { f: HEADER + "a: b: c\n" } });
  assert.deepEqual(errors.filter((error) => !error.startsWith("f:3: not YAML: ")), []);
});

Deno.test("with a file, flags are ignored with one warning, except those that kube-proxy applies", () => {
  const { configuration, warnings } = loaded("oomScoreAdj: 5\nhostnameOverride: a\nlogging: {verbosity: 1}", [
    "--oom-score-adj=7",
    "--proxy-mode=ipvs",
    "--kubeconfig=/x",
    "--hostname-override=B",
    "-v=6",
    "--logging-format=json",
    "--master=http://m",
    "--cleanup",
    "--init-only",
    "--source=file:x",
  ]);
  assert.equal(warnings.length, 1, warnings.join("\n"));
  assert.match(warnings[0]!, /--config is given/);
  for (const name of ["--oom-score-adj", "--proxy-mode", "--kubeconfig"]) assert(warnings[0]!.includes(name), name);
  assert(!warnings[0]!.includes("--hostname-override"));
  const { oomScoreAdj, mode, kubeconfig, nodeName, verbosity, loggingFormat, master, cleanup, initOnly, source } =
    configuration;
  assert.deepEqual(
    { oomScoreAdj, mode, kubeconfig, nodeName, verbosity, loggingFormat, master, cleanup, initOnly, source },
    {
      oomScoreAdj: 5,
      mode: "iptables",
      kubeconfig: undefined,
      nodeName: "b",
      verbosity: 6,
      loggingFormat: "json",
      master: "http://m",
      cleanup: true,
      initOnly: true,
      source: { kind: "file", path: "x" },
    },
  );
});

Deno.test("warnings are reported along with errors", () => {
  const command = fromFile("mod: x\noomScoreAdj: 2000");
  assert(command.kind === "errors");
  assert.match(command.warnings.join(), /unknown field mod/);
});

Deno.test("beside a file, flags turn no server off: it decides, and an empty address there is the default", () => {
  const { configuration } = accepted(
    ["--config", "kp.yaml", "--healthz-port=0", "--metrics-port=0", "--metrics-bind-address="],
    { files: { "kp.yaml": HEADER } },
  );
  assert.deepEqual(
    [configuration.healthzBindAddress, configuration.metricsBindAddress],
    ["0.0.0.0:10256", "127.0.0.1:10249"],
  );
});
