/** Tools that are missing for a while, and another process that holds the lock of iptables-legacy. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { change, cluster } from "./cluster.ts";
import { withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { createToolFolder } from "./tool_folder.ts";
import { waitFor } from "./wait.ts";

const SERVICES = 100;
const AWAY_MS = 3_000;
/** The lock file of iptables-legacy. */
const LOCK = "/run/xtables.lock";

const OWN_TOOLS = {
  iptables: ["iptables-restore", "ip6tables-restore"],
  nftables: ["nft"],
} as const;

/** Both modes; only iptables has a lock. */
export const missingTools: readonly Scenario[] = [
  ...MODES.map((mode) => ({
    ...{ name: `tools: missing for a while, ${mode}`, inGate: mode === "iptables" },
    run: () => missing(mode),
  })),
  { name: "tools: another process holds the xtables lock, iptables-legacy", run: lockHeld },
];

function missing(mode: (typeof MODES)[number]): Promise<Counts> {
  return withLab(async (lab) => {
    const tools = await createToolFolder(`${lab.folder}/tools`);
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode, env: tools.env, syncPeriod: "1s" });
    await marker.settle();
    const traffic = startTraffic(lab, SERVICES);
    await tools.remove(OWN_TOOLS[mode]);
    change(lab, SERVICES, 1);
    await sleep(systemClock, AWAY_MS);
    await waitFor("the log mentions the missing tool", 10_000, () => sluice.log().includes("is not installed"));
    await tools.add(OWN_TOOLS[mode]);
    const changedMs = await marker.move(60_000);
    const counts = await traffic.end();
    await sluice.end("SIGTERM");
    return {
      "missing for ms, a change in effect ms later": `${AWAY_MS}, ${Math.round(changedMs)}`,
      ...counts,
    };
  });
}

function lockHeld({ long }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const heldMs = long ? 60_000 : 4_000;
    const tools = await createToolFolder(`${lab.folder}/tools`, "legacy");
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode: "iptables", env: tools.env });
    await marker.settle();
    assert.ok(sluice.log().includes('"flavour":"legacy"'), "this is not iptables-legacy");
    const traffic = startTraffic(lab, SERVICES);
    const holder = lab.start("node", ["flock", LOCK, "sh", "-c", `echo held; sleep ${heldMs / 1000}`], {
      stdout: "piped",
    });
    const said = holder.stdout.getReader();
    await said.read();
    change(lab, SERVICES, 1);
    const changedMs = await marker.move(heldMs + 60_000);
    await Promise.all([holder.status, said.cancel()]);
    assert.ok(changedMs > heldMs / 2, `the lock was ignored: a change was in effect after ${changedMs} ms`);
    const counts = await traffic.end();
    await sluice.end("SIGTERM");
    return { "held for ms, a change in effect after ms": `${heldMs}, ${Math.round(changedMs)}`, ...counts };
  });
}
