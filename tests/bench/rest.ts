/**
 * Measures `dist/sluice` without changes: its CPU, tools included, and the tools that it starts, with 30 services and an API
 * server as the source, and compares them with the recorded ones:
 *
 *     deno task bench:rest [SECONDS]
 *
 * Each row takes 3 minutes by default. Needs root and ./compile.sh. Ends with `N passed, N failed`.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { change, cluster } from "../chaos/cluster.ts";
import { withLab } from "../chaos/lab.ts";
import { startSluice } from "../chaos/sluice.ts";
import { createSyncMarker } from "../chaos/sync_marker.ts";
import { UNIT_ENVIRONMENT } from "../compiled/lab.ts";
import { runIsolated } from "../isolated.ts";
import { builtExecutables } from "./executables.ts";

const SERVICES = 30;
const SECONDS = 180;
/** From the last change to the start of the measurement: conntrack passes, garbage collection. */
const SETTLE_MS = 15_000;

/** The most percent of a core, a third above what was measured, and the most tools in 180 s. Record a reduction here. */
const RECORDED = {
  nftables: { cpu: 0.24, tools: 5 },
  iptables: { cpu: 0.19, tools: 5 },
};
type Mode = keyof typeof RECORDED;

const TOOLS = [
  ...["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"],
  ...["nft", "conntrack", "sysctl", "choom", "prlimit"],
];

/** Notes each run of a tool. */
const SCRIPT = `#!/bin/sh
tool=\${0##*/}
echo "$tool $*" >> "\${0%/*}/runs"
PATH=\${PATH#*:}
exec "$tool" "$@"
`;

function measure(mode: Mode, seconds: number): Promise<{ cpu: number; tools: readonly string[] }> {
  return withLab(async (lab) => {
    const folder = `${lab.folder}/counted`;
    await Deno.mkdir(folder);
    for (const tool of TOOLS) await Deno.writeTextFile(`${folder}/${tool}`, SCRIPT, { mode: 0o755 });
    lab.api.apply(...cluster(SERVICES));
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode, toolsFirst: folder, env: UNIT_ENVIRONMENT });
    await marker.settle();
    change(lab, SERVICES, 1);
    await marker.move();
    await sleep(systemClock, SETTLE_MS);
    await Deno.writeTextFile(`${folder}/runs`, "");
    const before = cpuMsOf(sluice.pid);
    await sleep(systemClock, seconds * 1000);
    const cpu = (cpuMsOf(sluice.pid) - before) / seconds / 10;
    const tools = (await Deno.readTextFile(`${folder}/runs`)).split("\n").filter((line) => line !== "");
    await sluice.end("SIGTERM");
    return { cpu, tools };
  });
}

/** The CPU of a process and of its children, ended or not, in milliseconds. */
function cpuMsOf(pid: number | string): number {
  const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ownMs = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0);
  const children = [...Deno.readDirSync(`/proc/${pid}/task`)].flatMap(({ name }) =>
    Deno.readTextFileSync(`/proc/${pid}/task/${name}/children`).split(" ").filter((child) => child.trim() !== "")
  );
  return children.reduce((sum, child) => sum + cpuMsOf(child), ownMs);
}

async function inside(args: readonly string[]): Promise<number> {
  const seconds = Number(args[0] ?? SECONDS);
  Deno.env.set("SLUICE_BINARY", builtExecutables()[0]!);
  let failed = 0;
  console.log(`| mode | CPU, % of a core | limit | tools in ${seconds} s | limit |`);
  console.log("|---|--:|--:|--:|--:|");
  for (const mode of ["nftables", "iptables"] as const) {
    const { cpu, tools } = await measure(mode, seconds);
    const recorded = RECORDED[mode], most = Math.ceil(recorded.tools * seconds / SECONDS);
    const isOver = cpu > recorded.cpu || tools.length > most;
    if (isOver) failed++;
    console.log(
      `| ${mode} | ${cpu.toFixed(2)} | ${recorded.cpu} | ${tools.length} | ${most} |${isOver ? " OVER" : ""}`,
    );
    for (const [call, runs] of Object.entries(Object.groupBy(tools, (tool) => tool))) {
      console.log(`  ${runs!.length} × ${call}`);
    }
  }
  console.log(`\n${2 - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

Deno.exit(await runIsolated(import.meta.url, inside));
