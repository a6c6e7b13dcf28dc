/** A node that starts without its API server: its services are those of the kept state until the server is back. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { createStateFile, storageOf } from "../../sources/kept/state_file.ts";
import { endChild } from "../children.ts";
import { change, cluster } from "./cluster.ts";
import { takeSnapshot } from "./kernel.ts";
import { type ChaosLab, setApiLink, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { type ChaosSluice, startSluice } from "./sluice.ts";
import { ORIGIN, payloadOf } from "./state_writer.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { waitFor } from "./wait.ts";

const SERVICES = 1000;
/** Much more than a start takes, which the measurements show: the machine may be busy. */
const WITHIN_MS = 20_000;
const SERVING = "serving the kept state";

/** Logged once every kind was read from the server. */
export const REPLACED = "its state has replaced the kept one";

/** Both modes, and the file alone. */
export const reboot: readonly Scenario[] = [
  ...MODES.map((mode) => ({
    name: `reboot: ${SERVICES} services without rules and API server, ${mode}`,
    inGate: mode === "nftables",
    run: () => withLab((lab) => reboots(lab, mode)),
  })),
  {
    name: "reboot: kill -9 while the state is written",
    run: ({ long, random }: Extent) => killsWriter(long ? 1000 : 100, random),
  },
];

async function reboots(lab: ChaosLab, mode: ProxyMode): Promise<Counts> {
  const stateDirectory = `${lab.folder}/state`;
  lab.api.apply(...cluster(SERVICES));
  applyEcho(lab);
  const marker = createSyncMarker(lab);
  const before = await startSluice(lab, { mode, stateDirectory });
  await marker.settle();
  const kept = await takeSnapshot(lab, mode);
  await before.end("SIGTERM");
  const { size } = await Deno.stat(`${stateDirectory}/state`);

  await setApiLink("down");
  await emptyKernel(lab);
  change(lab, SERVICES, 2);
  const sluice = await startSluice(lab, { mode, stateDirectory });
  const startedMs = systemClock.monotonic();
  await kept.waitUntilRestored(WITHIN_MS);
  const servedMs = systemClock.monotonic() - startedMs;
  assert.ok(sluice.log().includes(SERVING));
  const traffic = startTraffic(lab, SERVICES);
  await sleep(systemClock, 5000);
  await kept.assertUnchanged("the kept state changed");

  await setApiLink("up");
  const upMs = systemClock.monotonic();
  await waitFor("the kept state is replaced", 60_000, () => sluice.log().includes(REPLACED));
  await marker.settle();
  const backMs = systemClock.monotonic() - upMs;
  const counts = await traffic.end();
  await sluice.end("SIGTERM");
  await equalsFreshStart(lab, mode);
  return {
    "size of the file, kB": Math.round(size / 1000),
    "all rules in effect after the start, ms": Math.round(servedMs),
    "nothing stale after the API server is reachable, ms": Math.round(backMs),
    ...counts,
  };
}

/** Removes the rules, and resets the kernel setting that a reboot resets. */
export async function emptyKernel(lab: ChaosLab): Promise<void> {
  await lab.run("node", ["nft", "flush", "ruleset"]);
  await lab.run("node", ["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=0"]);
}

/** Compares the rules with those of a Sluice that never had a kept state. */
export async function equalsFreshStart(lab: ChaosLab, mode: ProxyMode): Promise<void> {
  const found = await takeSnapshot(lab, mode);
  await emptyKernel(lab);
  const fresh: ChaosSluice = await startSluice(lab, { mode });
  await found.waitUntilRestored(10_000);
  await fresh.end("SIGTERM");
}

/** Kills a process that writes without a pause, and reads what it has left. */
async function killsWriter(kills: number, random: () => number): Promise<Counts> {
  const folder = await Deno.makeTempDir({ dir: "/var/tmp" });
  const writer = new URL("./state_writer.ts", import.meta.url).pathname;
  let last = 0, unfinished = 0;
  try {
    for (let i = 0; i < kills; i++) {
      const command = [
        "run",
        "--quiet",
        "--cached-only",
        "--no-check",
        "--allow-all",
        writer,
        folder,
        String(last + 1),
      ];
      const child = new Deno.Command(Deno.execPath(), { args: command, stdin: "null", stdout: "piped" }).spawn();
      let printed = "";
      const drained = (async () => {
        for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) printed += text;
      })();
      await waitFor("the first state is written", 30_000, () => printed.includes("\n"), 1);
      await sleep(systemClock, random() * 100);
      await Promise.all([endChild(child), drained]);
      const written = Number(printed.trim().split("\n").at(-1));
      using left = await Deno.open(`${folder}/state`);
      const { state } = await createStateFile(folder, storageOf(left)).read(ORIGIN);
      const number = state?.atMs;
      assert.ok(number === written || number === written + 1, `written ${written}, read ${number}`);
      assert.deepEqual(state!.payload, payloadOf(number));
      if (number !== last) unfinished += Number(number !== written);
      last = number;
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  return { "kills, writes, unreadable": `${kills}, ${last}, 0`, "ended between a write and its report": unfinished };
}
