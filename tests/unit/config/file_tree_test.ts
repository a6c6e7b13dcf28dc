import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { parseJsonFile } from "../../../config/file.ts";
import { parseCommandLine, readCommandLine } from "../../../config/mod.ts";
import { loadYaml, type TreeNode } from "../../../platform/mod.ts";
import { runs } from "../../property/runs.ts";

const contextOf = (content: string) => ({
  readFile: () => content,
  hostname: () => "node-a",
  kernelRelease: () => "6.1.0",
  modes: MODE_DESCRIPTIONS,
  commands: COMMANDS,
});
const TYPE_META = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

Deno.test("a JSON configuration file needs no YAML parser, and its errors have lines", () => {
  const text = JSON.stringify({ ...TYPE_META, mode: "nftables", oomScoreAdj: "x", clusterCDIR: "" }, undefined, 2);
  const line = parseCommandLine(["--config=kp"], contextOf(text.replace('"mode"', '"mode": "ipvs",\n  "mode"')));
  assert(line.kind === "errors");
  assert.match(line.errors.join(), /^kp:6: oomScoreAdj is "x": must be a 32-bit integer/);
  assert.match(line.warnings.join("\n"), /^kp:4: mode is set again below; the last one counts$/m);
  assert.match(line.warnings.join("\n"), /^kp:7: unknown field clusterCDIR; did you mean clusterCIDR\?$/m);
});

Deno.test("the YAML parser is loaded for any other file", async () => {
  const context = contextOf(
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n",
  );
  assert.deepEqual(parseCommandLine(["--config=kp"], context), { kind: "needs-yaml" });
  const line = await readCommandLine(["--config=kp"], context);
  assert(line.kind === "start");
  assert.equal(line.configuration.mode, "nftables");
});

Deno.test("both parsers read JSON the same, line by line", async () => {
  const { parseTree } = await loadYaml();
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ noUnicodeString: false })), fc.nat(3), (value, indent) => {
      const text = JSON.stringify(value, undefined, indent);
      fc.pre(!text.includes("-0"));
      assert.deepEqual(
        withoutListLines(parseJsonFile(text)!.documents[0]!),
        withoutListLines(parseTree(text, { uniqueKeys: false }).documents[0]!),
      );
    }),
    runs(40),
  );
});

/** The values as plain data, with the lines of fields. */
function withoutListLines(node: TreeNode): unknown {
  if (node.kind === "scalar") return { value: node.value };
  if (node.kind === "list") return { items: node.items.map(withoutListLines) };
  return { entries: node.entries.map(({ key, line, value }) => [key, line, withoutListLines(value)]) };
}

Deno.test("a circular alias is an error and terminates", async () => {
  const { parseTree } = await loadYaml();
  const { errors } = parseTree("a: &a\n  b: *a\n", { uniqueKeys: false });
  assert.deepEqual(errors, [{ line: 2, message: "circular alias *a" }]);
});
