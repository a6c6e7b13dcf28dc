/** The kernel's tools fail in every way: served services stay served, and the first run that works applies all changes. */
import assert from "node:assert/strict";
import { change, cluster, clusterSlice, serviceName } from "./cluster.ts";
import { createFaultyTools, type ToolFault } from "./faulty_tools.ts";
import { takeSnapshot } from "./kernel.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { metric } from "./process.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { waitFor } from "./wait.ts";

type Mode = (typeof MODES)[number];

const SERVICES = 100;
/** Enough changes that a random fault has occurred. */
const MOST_MOVES = 100;

/** Faults that hit a share of the runs. */
const FAULTS: readonly ToolFault[] = [
  { how: "fails", share: 25, message: "netlink: Error: No buffer space available" },
  { how: "fails", share: 25, message: "unable to initialize: Cannot allocate memory" },
  { how: "fails", share: 25, message: "" },
  { how: "killed-before", share: 25 },
  { how: "killed-after", share: 25 },
  { how: "garbage", share: 10 },
];

/** Faults of an interactive session (`nft -i`). */
const SESSION_FAULTS: readonly ToolFault[] = [{ how: "no-session" }, { how: "session-dies" }];

/** Both modes. */
export const tools: readonly Scenario[] = [
  ...MODES.map((mode) => ({
    name: `tools: runs fail at random, ${mode}`,
    inGate: mode === "nftables",
    run: (extent: Extent) => randomFailures(mode, extent),
  })),
  ...MODES.map((mode) => ({
    name: `tools: one run hangs until its deadline, ${mode}`,
    run: (extent: Extent) => oneHangs(mode, extent),
  })),
  ...MODES.map((mode) => ({
    name: `tools: the kernel refuses one service, ${mode}`,
    inGate: mode === "iptables",
    run: (extent: Extent) => oneRefused(mode, extent),
  })),
];

/** A service that is not probed, and text that only its next change writes. */
const REFUSED = 4;
const REFUSED_TARGET = { iptables: "10.151.0.4:", nftables: ": 10.151.0.4 . " };

/** Starts Sluice with faulty tools, waits until it is in sync, and starts traffic through all services. */
async function serveByFaultyTools(lab: ChaosLab, mode: Mode, { random }: Extent) {
  const tools = await createFaultyTools(`${lab.folder}/tools`, random);
  lab.api.apply(...cluster(SERVICES));
  applyEcho(lab);
  const marker = createSyncMarker(lab);
  const sluice = await startSluice(lab, { mode, toolsFirst: tools.folder, syncPeriod: "2s" });
  await marker.settle();
  const first = await takeSnapshot(lab, mode);
  return { tools, marker, sluice, first, traffic: startTraffic(lab, SERVICES) };
}

function oneRefused(mode: Mode, extent: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const { tools, marker, sluice, first, traffic } = await serveByFaultyTools(lab, mode, extent);
    await tools.set({ how: "refuses", text: REFUSED_TARGET[mode] });
    lab.api.apply(clusterSlice(REFUSED, 1));
    let longestMs = 0, moves = 0;
    for (; moves < 5; moves++) {
      lab.api.apply(clusterSlice(REFUSED + 1, moves));
      longestMs = Math.max(longestMs, await marker.move());
    }
    await waitFor("the refused service counts as a problem", 10_000, async () => await metric("sluice_problems") === 1);
    assert.ok(
      sluice.log().includes(`default/${serviceName(REFUSED)}:http`),
      "the log does not name the refused service",
    );
    const counts: Record<string, string | number> = {
      "runs refused, moves of others, longest ms": `${await tools.faultyRuns()}, ${moves}, ${Math.round(longestMs)}`,
    };
    await tools.set({ how: "none" });
    lab.api.apply(...cluster(SERVICES));
    await marker.settle();
    Object.assign(counts, await traffic.end());
    counts["same rules as after a fresh start, ms"] = Math.round(await first.waitUntilRestored(40_000));
    await sluice.end("SIGTERM");
    return counts;
  });
}

/** The tools that hang. */
const WRITERS = { iptables: "*tables-restore", nftables: "nft" };
/** A run that hangs is killed after 8 s, and a retry follows within 5 s. */
const LONGEST_WAIT_MS = 15_000;

function oneHangs(mode: Mode, { random }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const tools = await createFaultyTools(`${lab.folder}/tools`, random);
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode, toolsFirst: tools.folder });
    await marker.settle();
    const traffic = startTraffic(lab, SERVICES);
    await tools.set({ how: "hangs", share: 100 }, WRITERS[mode]);
    change(lab, SERVICES, 1);
    await waitFor("a run hangs", 10_000, async () => await tools.faultyRuns() > 0);
    const hanging = await tools.faultyRuns();
    await tools.set({ how: "none" });
    const tookMs = await marker.move(LONGEST_WAIT_MS);
    const counts = await traffic.end();
    assert.ok(sluice.log().includes("and was killed"), "the log does not mention that the tool was killed");
    await sluice.end("SIGTERM");
    return { "runs that hang, a change in effect after ms": `${hanging}, ${Math.round(tookMs)}`, ...counts };
  });
}

function randomFailures(mode: Mode, extent: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const { tools, marker, sluice, first, traffic } = await serveByFaultyTools(lab, mode, extent);
    const counts: Record<string, string | number> = {};
    for (const fault of mode === "nftables" ? [...FAULTS, ...SESSION_FAULTS] : FAULTS) {
      const name = "message" in fault ? `fails: ${fault.message || "(no message)"}` : fault.how;
      await tools.set(fault);
      let longestMs = 0;
      const moves = extent.long ? 50 : 3;
      let done = 0;
      for (; done < moves || (done < MOST_MOVES && await tools.faultyRuns() === 0); done++) {
        change(lab, SERVICES, done);
        longestMs = Math.max(longestMs, await marker.move(60_000));
      }
      counts[`${name}: faulty runs, moves, longest ms`] = `${await tools.faultyRuns()}, ${moves}, ${
        Math.round(longestMs)
      }`;
      assert.ok(await tools.faultyRuns() > 0, `${name}: no run was hit`);
    }
    await tools.set({ how: "none" });
    lab.api.apply(...cluster(SERVICES));
    await marker.settle();
    Object.assign(counts, await traffic.end());
    // The comparison every sync period finds changes that a tool reported but did not apply.
    counts["same rules as after a fresh start, ms"] = Math.round(await first.waitUntilRestored(40_000));
    await sluice.end("SIGTERM");
    return counts;
  });
}
