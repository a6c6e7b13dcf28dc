/** Tools that are not there for a while, and the lock of iptables-legacy in somebody else's hands. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { change, cluster } from "./cluster.ts";
import { withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Extent, type Figures, MODES, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";
import { createToolbox } from "./toolbox.ts";

const SERVICES = 100;
const AWAY_MS = 3000;
/** Where iptables-legacy has its lock. */
const LOCK = "/run/xtables.lock";

const OWN_TOOLS = {
  iptables: ["iptables-restore", "ip6tables-restore"],
  nftables: ["nft"],
} as const;

/** Both modes; the lock is that of iptables alone. */
export const missingTools: readonly Scenario[] = [
  ...MODES.map((mode) => ({ name: `tools: not there for a while, ${mode}`, run: () => notThere(mode) })),
  { name: "tools: the xtables lock is held by others, iptables-legacy", run: lockHeld },
];

function notThere(mode: (typeof MODES)[number]): Promise<Figures> {
  return withLab(async (lab) => {
    const toolbox = await createToolbox(`${lab.folder}/tools`);
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode, env: toolbox.env, syncPeriod: "1s" });
    await sentinel.settle();
    const traffic = startTraffic(lab, SERVICES);
    await toolbox.takeAway(OWN_TOOLS[mode]);
    change(lab, SERVICES, 1);
    await sleep(systemClock, AWAY_MS);
    assert.ok(sluice.log().includes("is not installed"), "nobody missed the tool");
    await toolbox.putBack(OWN_TOOLS[mode]);
    const changedMs = await sentinel.move(60_000);
    const figures = await traffic.end();
    await sluice.end("SIGTERM");
    return {
      "away for ms, a change in effect ms after": `${AWAY_MS}, ${Math.round(changedMs)}`,
      ...figures,
    };
  });
}

function lockHeld({ long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    const heldMs = long ? 60_000 : 4_000;
    const toolbox = await createToolbox(`${lab.folder}/tools`, "legacy");
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode: "iptables", env: toolbox.env });
    await sentinel.settle();
    assert.ok(sluice.log().includes('"flavour":"legacy"'), "this is not iptables-legacy");
    const traffic = startTraffic(lab, SERVICES);
    const holder = lab.start("node", ["flock", LOCK, "sleep", String(heldMs / 1000)]);
    await sleep(systemClock, 200);
    change(lab, SERVICES, 1);
    const changedMs = await sentinel.move(heldMs + 60_000);
    await holder.status;
    assert.ok(changedMs > heldMs / 2, `a change was in effect after ${changedMs} ms: nobody heard of the lock`);
    const figures = await traffic.end();
    await sluice.end("SIGTERM");
    return { "held for ms, a change in effect after ms": `${heldMs}, ${Math.round(changedMs)}`, ...figures };
  });
}
