/** The settings that workers of a family get from a configuration, and values that only some sources or forms have. */
import assert from "node:assert/strict";
import { balanceOptions, familySettings, ipvsSettings, routesLoopback } from "../../../config/mod.ts";
import { labelKeys } from "../../../config/host_settings.ts";
import { createNodeTracker } from "../../../core/tracking/node_tracker.ts";
import { accepted, fromFile, refused } from "./parse.ts";

const NODE = createNodeTracker({ nodeName: "here", bindAddress: "" }).state();
const RANGES = { IPv4: ["10.96.0.0/12"], IPv6: ["fd00::/108"] };

function settingsOf(...flags: readonly string[]) {
  const { configuration } = accepted(["--source", "file:none", ...flags]);
  const settings = familySettings("IPv4", configuration, NODE, RANGES);
  return { configuration, settings };
}

Deno.test("the settings of a family are those of the configuration, and service ranges of the modes that use them", () => {
  const { settings } = settingsOf("--proxy-mode", "nftables", "--conntrack-tcp-be-liberal");
  assert.deepEqual([settings.serviceRanges, settings.conntrackTcpLiberal], [RANGES.IPv4, true]);
  const { settings: others } = settingsOf("--proxy-mode", "iptables", "--iptables-sync-period", "7s");
  assert.deepEqual([others.serviceRanges, others.conntrackTcpLiberal, others.syncPeriodMs], [[], false, 7_000]);
});

Deno.test("only a mode without a relay has loopback addresses routed by the kernel", () => {
  for (const [mode, isRouted] of [["iptables", true], ["userspace", false]] as const) {
    const { configuration, settings } = settingsOf("--proxy-mode", mode);
    assert.equal(routesLoopback({ ...settings, localhostNodePorts: true }, configuration), isRouted, mode);
    assert.equal(routesLoopback({ ...settings, localhostNodePorts: false }, configuration), false);
  }
});

Deno.test("ipvs timeouts are whole seconds, rounded down, and excluded prefixes those of the family", () => {
  const { configuration } = accepted([
    ...["--source", "file:none", "--proxy-mode", "ipvs", "--ipvs-exclude-cidrs", "10.0.0.0/8,fd00::/8"],
    ...["--ipvs-tcp-timeout", "1999ms", "--ipvs-udp-timeout", "3s"],
  ]);
  const { timeoutSeconds, excludePrefixes } = ipvsSettings("IPv4", configuration)!;
  assert.deepEqual([timeoutSeconds.tcp, timeoutSeconds.udp, excludePrefixes], [1, 3, ["10.0.0.0/8"]]);
  assert.deepEqual(ipvsSettings("IPv6", configuration)!.excludePrefixes, ["fd00::/8"]);
});

Deno.test("labels for weights are those of the API server, and none in a site", () => {
  const { configuration } = accepted(["--source", "file:none"]);
  const keysOf = (fields: object) => labelKeys({ ...configuration, ...fields } as typeof configuration);
  const balance = { ...configuration.balance, nodeLabels: ["rack"], podLabels: [] },
    kube = { source: { kind: "kube" } };
  assert.deepEqual(keysOf({ balance, ...kube }), { nodes: ["rack"], pods: [] });
  const none = { nodes: [], pods: [], areUnavailable: true };
  assert.deepEqual(keysOf({ balance, ...kube, site: { ...configuration.site, name: "store-12" } }), none);
  assert.deepEqual(keysOf({ balance }), none);
  const asMode = { ...configuration.balance, algorithm: balanceOptions(configuration).modeDefault };
  assert.equal(
    balanceOptions({ ...configuration, balance: asMode } as typeof configuration).byDefault.algorithm,
    undefined,
  );
});

Deno.test("flags have the values that they are given", () => {
  const { configuration } = accepted(["--source", "grpc://a:1", "--max-msg-size", "77"]);
  assert.equal(configuration.maxMessageBytes, 77);
  assert.equal(accepted(["--source", "grpc://a:1"]).configuration.maxMessageBytes, 4 * 1024 * 1024);
  assert.equal(accepted(["-v", "010"]).configuration.verbosity, 8, "as in Go, a leading zero means octal");
  assert.match(
    refused(["--source", "file:none", "--site", "store-12"]).join("\n"),
    /needs the API server as the source/,
  );
});

Deno.test("what a file says of a repeated field is a warning, or an error with --strict-config", () => {
  const twice = "mode: iptables\nmode: nftables\n";
  const lenient = fromFile(twice), strict = fromFile(twice, ["--strict-config"]);
  assert(lenient.kind === "start" && strict.kind === "errors");
  assert.ok(lenient.warnings.some((warning) => warning.includes("mode is set again below")));
  assert.ok(strict.errors.some((error) => error.includes("mode is set again below")));
  assert.ok(!strict.warnings.some((warning) => warning.includes("mode is set again below")));
});
