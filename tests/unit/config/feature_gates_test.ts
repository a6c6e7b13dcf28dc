import assert from "node:assert/strict";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../../../config/mod.ts";
import { accepted, fromFile, refused } from "./parse.ts";

const gates = (text: string) => [`--feature-gates=${text}`];

Deno.test("a gate is as it is set, else as its stage is, else as Kubernetes 1.36 has it", () => {
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
  ];
  for (const [name, set, expected] of table) {
    assert.equal(isFeatureEnabled(name, set), expected, `${name} with ${JSON.stringify(set)}`);
  }
});

Deno.test("a locked gate is refused with the value that it cannot have, and accepted with the one that it has", () => {
  for (const [name, { locked, initial }] of Object.entries(FEATURE_GATES)) {
    if (!locked) continue;
    assert.deepEqual(accepted(gates(`${name}=${initial}`)).warnings, []);
    const [error = ""] = refused(gates(`${name}=${!initial}`));
    assert.match(error, new RegExp(`^--feature-gates sets ${name} to false: Kubernetes 1.36 has locked it to true`));
  }
});

Deno.test("every gate that is not obeyed is named in one warning, and a deprecated one in another", () => {
  const { warnings } = accepted(
    gates("WatchListClient=true,AllowServiceExternalIPs=false,AllowServiceExternalIP=false"),
  );
  assert.equal(warnings.length, 2, warnings.join("\n"));
  assert.match(warnings[0]!, /^--feature-gates sets the deprecated gate AllowServiceExternalIPs/);
  assert.match(warnings[1]!, /^--feature-gates sets AllowServiceExternalIP, WatchListClient: they have no effect/);
  assert.deepEqual(accepted(gates("ComponentFlagz=false,AllBeta=true")).warnings, []);
});

Deno.test("a file's gates are named by its line", () => {
  const line = fromFile("featureGates:\n  GracefulNodeShutdown: true\n");
  assert(line.kind === "start");
  assert.match(line.warnings.join(), /^kp\.yaml:3: featureGates sets GracefulNodeShutdown: it has no effect in Sluice/);
});

Deno.test("gates named like what every object has are no gates", () => {
  assert.match(accepted(gates("constructor=true")).warnings.join(), /sets constructor: it has no effect/);
});
