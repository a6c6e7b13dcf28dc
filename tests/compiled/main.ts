/**
 * Holds the executable that ships for three minutes, as root:
 *
 *     deno task test:compiled [--list] [PART OF A NAME]…
 *
 * `serve` with and without workers, a site of three nodes and a plain proxy run at the same time, under TLS, while endpoints change,
 * rest for longer than any limit on silence, and change again. None of them may connect again or grow. SLUICE_BINARY is the executable
 * (dist/sluice by default), COMPILED_SECONDS the time.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { runScenarios, type Selectable } from "../scenario_runner.ts";
import type { Result } from "../suite.ts";
import { type CompiledLab, createCompiledLab } from "./lab.ts";
import { startServed } from "./served.ts";
import { startSite } from "./site.ts";
import { startPlain } from "./plain.ts";
import type { Held } from "./held.ts";

const SECONDS = Number(Deno.env.get("COMPILED_SECONDS") ?? 180);
const FIRST_S = 60;
/** Nothing changes for longer than a silent peer is tolerated. */
const REST_S = 75;
const CHANGES_PER_S = 5;
/** The seconds before a measurement in which the garbage is collected, every second. */
const COLLECTION_S = 5;
const GROWTH_MB = 5;

/** Makes Deno collect the garbage of its main isolate, with DENO_USR2_MEMORY_TRIM in its environment. */
const COLLECT = "SIGUSR2";

/** An arrangement of processes. */
interface Scenario extends Selectable {
  start(lab: CompiledLab, name: string): Promise<Held>;
}

const SCENARIOS: readonly Scenario[] = [
  { name: "serve without workers", inGate: true, start: (lab, name) => startServed(lab, name, 0) },
  { name: "serve with workers", inGate: true, start: (lab, name) => startServed(lab, name, 2) },
  { name: "a plain proxy", inGate: true, start: startPlain },
  { name: "a site of three", inGate: true, start: startSite },
];

/** The memory of a process without the pages of its executable, which the kernel can drop. */
function anonymousMB(pid: number): number {
  return Number(/^RssAnon:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))?.[1]) / 1024;
}

/** Starts arrangements, changes endpoints and rests in turns, and resolves with the problems of each. */
async function hold(lab: CompiledLab, scenarios: readonly Scenario[]): Promise<ReadonlyMap<string, readonly string[]>> {
  const problems = new Map<string, readonly string[]>();
  const held = new Map<string, Held>();
  await Promise.all(scenarios.map(async ({ name, start }) => {
    try {
      held.set(name, await start(lab, name));
    } catch (error) {
      problems.set(name, [errorText(error)]);
    }
  }));
  const processes = [...held.values()].flatMap(({ processes }) => Object.entries(processes));
  const first = new Map<string, number>(), last = new Map<string, number>();
  const measure = (memory: Map<string, number>) => {
    for (const [name, pid] of processes) memory.set(name, anonymousMB(pid));
  };
  for (let second = 1; second <= SECONDS && held.size > 0; second++) {
    if (second <= FIRST_S || second > FIRST_S + REST_S) lab.change(CHANGES_PER_S);
    const leftS = (second <= FIRST_S ? FIRST_S : SECONDS) - second;
    if (leftS < COLLECTION_S) { for (const [, pid] of processes) Deno.kill(pid, COLLECT); }
    await sleep(systemClock, 1000);
    if (leftS === 0) measure(second === FIRST_S ? first : last);
  }
  for (const [name, { processes, problems: problemsOf }] of held) {
    const found = [...problemsOf()];
    for (const process of Object.keys(processes)) {
      const [before, after] = [first.get(process)!, last.get(process)!];
      console.log(`${process.padEnd(30)} ${before.toFixed(1)} MB after ${FIRST_S} s, ${after.toFixed(1)} at the end`);
      if (after > before + GROWTH_MB) found.push(`${process} grew by ${(after - before).toFixed(1)} MB`);
    }
    problems.set(name, found);
  }
  return problems;
}

Deno.exit(
  await runScenarios({
    name: "compiled",
    self: import.meta.url,
    scenarios: SCENARIOS,
    async run(scenarios): Promise<readonly Result[]> {
      const startedMs = systemClock.monotonic();
      const lab = await createCompiledLab();
      try {
        const problems = await hold(lab, scenarios).catch((error) => {
          console.log(`FAILED: ${errorText(error)}`);
          return new Map<string, readonly string[]>();
        });
        const results = scenarios.map(({ name }) => {
          const passed = problems.get(name)?.length === 0;
          if (!passed) console.log(`FAILED: ${name}: ${problems.get(name)?.join("; ") ?? "it did not end"}`);
          return { name, unit: name, passed, tookMs: systemClock.monotonic() - startedMs };
        });
        if (!results.every(({ passed }) => passed)) console.log(lab.logs().join("\n\n"));
        return results;
      } finally {
        await lab.close();
      }
    },
  }),
);
