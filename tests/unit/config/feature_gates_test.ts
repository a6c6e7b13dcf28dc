import assert from "node:assert/strict";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../../../config/mod.ts";
import { accepted, fromFile, refused } from "./parse.ts";

const gates = (text: string) => [`--feature-gates=${text}`];

Deno.test("a gate has its own setting, else that of its stage, else its default", () => {
  const table: readonly [FeatureName, Readonly<Record<string, boolean>>, boolean][] = [
    ["AllowServiceExternalIPs", {}, true],
    ["AllowServiceExternalIPs", { AllowServiceExternalIPs: false }, false],
    ["AllowServiceExternalIPs", { AllBeta: false, AllAlpha: false }, true],
    ["ComponentFlagz", {}, true],
    ["ComponentFlagz", { ComponentStatusz: false }, true],
    ["ComponentFlagz", { AllBeta: false }, false],
    ["ComponentFlagz", { AllBeta: false, ComponentFlagz: true }, true],
    ["ComponentStatusz", { ComponentStatusz: false, AllBeta: true }, false],
    ["NFTablesProxyMode", { AllBeta: false }, true],
    ["KubeProxyIPVS", {}, true],
    ["KubeProxyIPVS", { AllAlpha: false, AllBeta: false }, true],
    ["KubeProxyNFTablesLocalhostNodePorts", {}, true],
    ["KubeProxyNFTablesLocalhostNodePorts", { AllAlpha: false }, false],
  ];
  for (const [name, set, expected] of table) {
    assert.equal(isFeatureEnabled(name, set), expected, `${name} with ${JSON.stringify(set)}`);
  }
});

Deno.test("a locked gate can only be set to its default", () => {
  for (const [name, { locked }] of Object.entries(FEATURE_GATES)) {
    if (!locked) continue;
    assert.deepEqual(accepted(gates(`${name}=true`)).warnings, []);
    const [error = ""] = refused(gates(`${name}=false`));
    assert.match(error, new RegExp(`^--feature-gates sets ${name} to false: Kubernetes 1.37 locks it to true`));
  }
});

Deno.test("one warning names all unsupported gates, another the deprecated one", () => {
  const { warnings } = accepted(
    gates("WatchListClient=true,KubeProxyIPVS=true,AllowServiceExternalIP=false"),
  );
  assert.equal(warnings.length, 2, warnings.join("\n"));
  assert.match(warnings[0]!, /^--feature-gates sets the deprecated gate KubeProxyIPVS/);
  assert.match(warnings[1]!, /^--feature-gates sets AllowServiceExternalIP, WatchListClient: no effect/);
  assert.deepEqual(accepted(gates("ComponentFlagz=false,AllBeta=true,AllowServiceExternalIPs=false")).warnings, []);
});

Deno.test("the gates of kube-proxy 1.37 do not prevent a start", () => {
  const { warnings } = accepted(gates("NFTablesNetlink=false,KubeProxyNFTablesLocalhostNodePorts=true,WinDSR=true"));
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /^--feature-gates sets NFTablesNetlink, WinDSR: no effect/);
});

Deno.test("KubeProxyIPVS decides whether ipvs mode is accepted, and no other mode", () => {
  for (const mode of ["", "iptables", "nftables", "userspace", "ipvs"]) {
    accepted([`--proxy-mode=${mode}`, ...gates("KubeProxyIPVS=true")]);
    const off = [`--proxy-mode=${mode}`, ...gates("KubeProxyIPVS=false")];
    if (mode !== "ipvs") accepted(off);
    else assert.match(refused(off).join(), /^--proxy-mode is "ipvs": the feature gate KubeProxyIPVS is off/);
  }
});

Deno.test("a warning about gates in a file names the line", () => {
  const line = fromFile("featureGates:\n  GracefulNodeShutdown: true\n");
  assert(line.kind === "start");
  assert.match(line.warnings.join(), /^kp\.yaml:3: featureGates sets GracefulNodeShutdown: no effect in Sluice/);
});

Deno.test("gates named like properties of every object are unknown", () => {
  assert.match(accepted(gates("constructor=true")).warnings.join(), /sets constructor: no effect/);
});
