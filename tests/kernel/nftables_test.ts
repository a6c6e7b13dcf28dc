import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { createNftablesBackend } from "../../backends/nftables/backend.ts";
import { runOrThrow } from "../../backends/tools/mod.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Family, ServicePort } from "../../core/model/mod.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { createLogger } from "../../platform/log.ts";
import { everyKindOfPort, everyKindOfSettings } from "./every_kind.ts";

const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

function newBackend(family: Family): Backend {
  requireIsolation();
  const clock = systemClock;
  const logger = createLogger({ level: "error", format: "text", clock, write: () => {} });
  return createNftablesBackend({ family, runner, clock, logger });
}

/** Replaces the ruleset by a copy that nft has saved, as programs do that restore it at a boot. */
async function restoreRuleset(): Promise<void> {
  const { stdout: saved } = await runOrThrow(runner, { tool: "nft", args: ["list", "ruleset"] }, "nft list ruleset");
  await runOrThrow(runner, { tool: "nft", args: ["-f", "-"], stdin: ["flush ruleset\n", saved] }, "nft -f");
}

for (const family of ["IPv4", "IPv6"] as const) {
  const ports = everyKindOfPort(family), settings = everyKindOfSettings(family);

  const snapshot = (set: readonly ServicePort[], which: number) =>
    ({ revision: 1, base: undefined, settings: settings[which], set, deleted: [] }) as const;

  Deno.test(`${family} tables that nft has saved can be restored`, async () => {
    const backend = newBackend(family);
    for (let which = 0; which < settings.length; which++) {
      await backend.sync(snapshot(ports, which));
      await restoreRuleset();
      const { counts } = await newBackend(family).sync(snapshot(ports, which));
      assert.equal(counts["nftables_transactions"], 0, `settings ${which}`);
    }
    await backend.cleanup();
  });

  Deno.test(`${family} tables read back as written, and change to any other state`, async () => {
    const backend = newBackend(family);
    await backend.setup();
    for (let which = 0; which < settings.length; which++) {
      assert.deepEqual((await backend.sync(snapshot(ports, which))).problems, []);
      const { problems, counts } = await newBackend(family).sync(snapshot(ports, which));
      assert.deepEqual(problems, []);
      assert.equal(counts["nftables_transactions"], 0, `settings ${which} do not read back as written`);
    }
    // With session affinity, the numbers of the endpoints that are left have a gap.
    const fewer = ports.map((port) =>
      port.balance ? port : ({
        ...port,
        clusterEndpoints: port.clusterEndpoints.filter((_, i) => i !== 1),
      })
    );
    assert.deepEqual((await backend.sync(snapshot(fewer, 0))).problems, []);
    assert.equal((await newBackend(family).sync(snapshot(fewer, 0))).counts["nftables_transactions"], 0);
    // Every service port changes, by way of a state with half of them.
    const rotated = ports.map((port, i) => ({
      ...ports[(i + 1) % ports.length]!,
      name: port.name,
      clusterIP: port.clusterIP,
    }));
    assert.deepEqual((await backend.sync(snapshot(ports.slice(5), 0))).problems, []);
    assert.deepEqual((await backend.sync(snapshot(rotated, 1))).problems, []);
    const { counts } = await newBackend(family).sync(snapshot(rotated, 1));
    assert.equal(counts["nftables_transactions"], 0);
    await backend.cleanup();
  });
}
