import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import assert from "node:assert/strict";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { readCommandLine } from "../../../config/mod.ts";
import { loadYaml } from "../../../platform/mod.ts";

const contextOf = (content: string) => ({
  readFile: () => content,
  hostname: () => "node-a",
  kernelRelease: () => "6.1.0",
  modes: MODE_DESCRIPTIONS,
  commands: COMMANDS,
});
const TYPE_META = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

Deno.test("a JSON configuration file is read, and its errors have lines", async () => {
  const text = JSON.stringify({ ...TYPE_META, mode: "nftables", oomScoreAdj: "x", clusterCDIR: "" }, undefined, 2);
  const line = await readCommandLine(
    ["--config=kp"],
    contextOf(text.replace('"mode"', '"mode": "ipvs",\n  "mode"')),
  );
  assert(line.kind === "errors");
  assert.match(line.errors.join(), /^kp:6: oomScoreAdj is "x": must be a 32-bit integer/);
  assert.match(line.warnings.join("\n"), /^kp:4: mode is set again below; the last one counts$/m);
  assert.match(line.warnings.join("\n"), /^kp:7: unknown field clusterCDIR; did you mean clusterCIDR\?$/m);
});

Deno.test("a circular alias is an error and terminates", async () => {
  const { parseTree } = await loadYaml();
  const { errors } = parseTree("a: &a\n  b: *a\n", { uniqueKeys: false });
  assert.deepEqual(errors, [{ line: 2, message: "circular alias *a" }]);
});
