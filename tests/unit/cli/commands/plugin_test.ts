import assert from "node:assert/strict";
import { argumentsUnder } from "../../../../cli/commands/mod.ts";
import { invoke } from "./invoke.ts";

Deno.test("under the name kubectl-sluice, the arguments are those of sluice cluster", () => {
  const plugin = ["/usr/local/bin/kubectl-sluice", "/opt/sluice"];
  assert.deepEqual(argumentsUnder(plugin, ["status", "-n", "x"]), ["cluster", "status", "-n", "x"]);
  assert.deepEqual(argumentsUnder(plugin, ["--help"]), ["cluster", "--help"]);
  assert.deepEqual(argumentsUnder(["kubectl-sluice"], []), ["help", "cluster"]);
  assert.deepEqual(argumentsUnder(plugin, ["help", "status"]), ["help", "cluster"]);
  assert.deepEqual(argumentsUnder(plugin, ["version"]), ["version"]);
  assert.deepEqual(argumentsUnder(["./sluice", "/opt/kubectl-sluice/sluice"], []), []);
});

Deno.test("a command on one node needs the node, and takes only its own flags", async () => {
  const statusOf = async (...args: readonly string[]) => (await invoke(["cluster", ...args])).status;
  assert.equal(await statusOf("explain", "default/web"), 2);
  assert.equal(await statusOf("get", "svc", "--node", "a", "--from", "pod"), 2);
  assert.equal(await statusOf("get", "svc", "--node", "a", "--source", "file:x"), 2);
  assert.equal(await statusOf("status", "-o", "yaml"), 2);
  assert.equal(await statusOf("status", "node-a"), 2);
});
