/** The kernel's tools fail in every way they can: what was served is served on, and what changed comes with the first run that works. */
import assert from "node:assert/strict";
import { rememberState } from "./as_fresh.ts";
import { change, cluster, clusterSlice, serviceName } from "./cluster.ts";
import { createFaultyTools, type ToolFault } from "./faulty_tools.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { metric } from "./observe.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Extent, type Figures, MODES, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";
import { until } from "./until.ts";

type Mode = (typeof MODES)[number];

const SERVICES = 100;
/** By then, something has struck. */
const MOST_MOVES = 100;

/** What goes wrong now and then. */
const FAULTS: readonly ToolFault[] = [
  { how: "fails", share: 25, says: "netlink: Error: No buffer space available" },
  { how: "fails", share: 25, says: "unable to initialize: Cannot allocate memory" },
  { how: "fails", share: 25, says: "" },
  { how: "killed-before", share: 25 },
  { how: "killed-after", share: 25 },
  { how: "babbles", share: 10 },
];

/** What else goes wrong with an nft that is talked with. */
const TALKING_FAULTS: readonly ToolFault[] = [{ how: "speechless" }, { how: "faints" }];

/** Both modes. */
export const tools: readonly Scenario[] = [
  ...MODES.map((mode) => ({
    name: `tools: runs fail now and then, ${mode}`,
    run: (extent: Extent) => nowAndThen(mode, extent),
  })),
  ...MODES.map((mode) => ({
    name: `tools: one run hangs until its deadline, ${mode}`,
    onlyLong: true,
    run: () => oneHangs(mode),
  })),
  ...MODES.map((mode) => ({ name: `tools: one service is always refused, ${mode}`, run: () => oneRefused(mode) })),
];

/** A service that is not probed, and what only its next change writes. */
const REFUSED = 4;
const REFUSED_TARGET = { iptables: "10.151.0.4:", nftables: ": 10.151.0.4 . " };

/** A Sluice in sync whose tools can be told to fail, with traffic through all services. */
async function serveByFaultyTools(lab: ChaosLab, mode: Mode) {
  const tools = await createFaultyTools(`${lab.folder}/tools`);
  lab.api.apply(...cluster(SERVICES));
  applyEcho(lab);
  const sentinel = createSentinel(lab);
  const sluice = await startSluice(lab, { mode, toolsFirst: tools.folder, syncPeriod: "2s" });
  await sentinel.settle();
  const first = await rememberState(lab, mode);
  return { tools, sentinel, sluice, first, traffic: startTraffic(lab, SERVICES) };
}

function oneRefused(mode: Mode): Promise<Figures> {
  return withLab(async (lab) => {
    const { tools, sentinel, sluice, first, traffic } = await serveByFaultyTools(lab, mode);
    await tools.set({ how: "refuses", text: REFUSED_TARGET[mode] });
    lab.api.apply(clusterSlice(REFUSED, 1));
    let longestMs = 0, moves = 0;
    for (; moves < 5; moves++) {
      lab.api.apply(clusterSlice(REFUSED + 1, moves));
      longestMs = Math.max(longestMs, await sentinel.move());
    }
    await until("the refused service counts as a problem", 10_000, async () => await metric("sluice_problems") === 1);
    assert.ok(sluice.log().includes(`default/${serviceName(REFUSED)}:http`), "the log does not name it");
    const figures: Record<string, string | number> = {
      "runs struck, moves of others, longest ms": `${await tools.struck()}, ${moves}, ${Math.round(longestMs)}`,
    };
    await tools.set({ how: "none" });
    lab.api.apply(...cluster(SERVICES));
    await sentinel.settle();
    Object.assign(figures, await traffic.end());
    figures["all as after a fresh start, ms"] = Math.round(await first.isBack(40_000));
    await sluice.end("SIGTERM");
    return figures;
  });
}

/** The tools that hang: those that write, which have the longest deadlines. */
const WRITERS = { iptables: "*tables-restore", nftables: "nft" };
const LONGEST_DEADLINE_MS = 180_000;

function oneHangs(mode: Mode): Promise<Figures> {
  return withLab(async (lab) => {
    const tools = await createFaultyTools(`${lab.folder}/tools`);
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode, toolsFirst: tools.folder });
    await sentinel.settle();
    const traffic = startTraffic(lab, SERVICES);
    await tools.set({ how: "hangs", share: 100 }, WRITERS[mode]);
    change(lab, SERVICES, 1);
    await until("a run hangs", 10_000, async () => await tools.struck() > 0);
    const hanging = await tools.struck();
    await tools.set({ how: "none" });
    const tookMs = await sentinel.move(2 * LONGEST_DEADLINE_MS);
    const figures = await traffic.end();
    assert.ok(sluice.log().includes("and was killed"), "the log does not say that it was killed");
    await sluice.end("SIGTERM");
    return { "runs that hang, a change in effect after ms": `${hanging}, ${Math.round(tookMs)}`, ...figures };
  });
}

function nowAndThen(mode: Mode, { long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    const { tools, sentinel, sluice, first, traffic } = await serveByFaultyTools(lab, mode);
    const figures: Record<string, string | number> = {};
    for (const fault of mode === "nftables" ? [...FAULTS, ...TALKING_FAULTS] : FAULTS) {
      const name = "says" in fault ? `fails: ${fault.says || "(says nothing)"}` : fault.how;
      await tools.set(fault);
      let longestMs = 0;
      const moves = long ? 50 : 5;
      let done = 0;
      for (; done < moves || (done < MOST_MOVES && await tools.struck() === 0); done++) {
        change(lab, SERVICES, done);
        longestMs = Math.max(longestMs, await sentinel.move(60_000));
      }
      figures[`${name}: runs struck, moves, longest ms`] = `${await tools.struck()}, ${moves}, ${
        Math.round(longestMs)
      }`;
      assert.ok(await tools.struck() > 0, `${name} struck nothing`);
      await tools.set({ how: "none" });
      await sentinel.settle();
    }
    lab.api.apply(...cluster(SERVICES));
    await sentinel.settle();
    Object.assign(figures, await traffic.end());
    // What a tool said it had done, and had not, is found by the comparison of a sync period.
    figures["all as after a fresh start, ms"] = Math.round(await first.isBack(40_000));
    await sluice.end("SIGTERM");
    return figures;
  });
}
