import assert from "node:assert/strict";
import { loadBackend } from "../../../../backends/registry.ts";
import type { Runner } from "../../../../backends/tools/runner.ts";
import { watchKilledTools } from "../../../../backends/tools/wrapped_runners.ts";
import type { Problem } from "../../../../core/problems/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { nftSettings } from "../nftables/host.ts";

Deno.test("a tool that crashes is a problem until it runs again", async () => {
  const host = createFakeNftHost(), reported: (readonly Problem[])[] = [];
  let crashes = false;
  const runner: Runner = {
    ...host.runner,
    run: (call) =>
      crashes && call.args[0] !== "--version"
        ? Promise.resolve({ exitCode: 139, stdout: "", stderr: "" })
        : host.runner.run(call),
  };
  const backend = await loadBackend("nftables", {
    family: "IPv4",
    runner,
    clock: host.clock,
    logger: silentLogger,
    onProblems: (scope, problems) => void (scope === "tools" && reported.push(problems)),
  });
  const whole = { base: undefined, settings: nftSettings(), deleted: [] };
  await backend.sync({ ...whole, revision: 1, set: [fakeServicePort("default/web")] });
  assert.deepEqual(reported, []);
  crashes = true;
  host.clock.advance(24 * 3_600_000);
  await assert.rejects(backend.resync(), /nft list table was ended by SIGSEGV/);
  assert.deepEqual(reported, [[{
    code: "tool-killed",
    subject: "nft",
    detail:
      "nftables v1.0.6 (Lester Gooch #5): nft was ended by SIGSEGV; before 1.1, it ends with SIGSEGV if another " +
      "program's table has a set that a newer nft has made; then install nft 1.1 or newer, or set --proxy-mode iptables",
  }]]);
  crashes = false;
  await backend.resync();
  assert.deepEqual(reported.slice(1), [[]]);
});

Deno.test("a tool that Ctrl-C or a stop of the whole process group ends is no problem", async () => {
  const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15, SIGKILL: 9, SIGSEGV: 11 };
  const reported: string[] = [];
  for (const [name, number] of Object.entries(SIGNALS)) {
    const ended: Runner = { run: () => Promise.resolve({ exitCode: 128 + number, stdout: "", stderr: "" }) };
    await watchKilledTools(ended, () => reported.push(name)).run({ tool: "nft", args: ["list"] });
  }
  assert.deepEqual(reported, ["SIGKILL", "SIGSEGV"]);
});

Deno.test("a tool that crashed stays a problem when SIGTERM ends its next run", async () => {
  const exitCodes = [139, 0, 143], reported: string[][] = [];
  const runner: Runner = { run: () => Promise.resolve({ exitCode: exitCodes.shift()!, stdout: "", stderr: "" }) };
  const watched = watchKilledTools(runner, (killed) => reported.push(killed.map(({ tool }) => tool)));
  for (const _ of ["crashes, and shows its version", "ends by SIGTERM"]) {
    await watched.run({ tool: "nft", args: ["list"] });
  }
  assert.deepEqual(reported, [["nft"]]);
});
