/**
 * Holds the executable that ships for three minutes, as root:
 *
 *     deno task test:compiled
 *
 * `serve` with and without workers, a site of three nodes and a plain proxy run at the same time, under TLS, while endpoints change,
 * rest for longer than any limit on silence, and change again. None of them may connect again or grow. SLUICE_BINARY is the executable
 * (dist/sluice by default), COMPILED_SECONDS the time. Ends with `N passed, N failed`.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { runIsolated } from "../isolated.ts";
import { createCompiledLab } from "./lab.ts";
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

/** The memory of a process without the pages of its executable, which the kernel can drop. */
function anonymousMB(pid: number): number {
  return Number(/^RssAnon:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))?.[1]) / 1024;
}

async function inside(): Promise<number> {
  const lab = await createCompiledLab();
  const failures: string[] = [];
  let held: readonly Held[] = [];
  try {
    held = await Promise.all([
      startServed(lab, "serve without workers", 0),
      startServed(lab, "serve with workers", 2),
      startPlain(lab),
      startSite(lab),
    ]);
    const processes = held.flatMap(({ processes }) => Object.entries(processes));
    const first = new Map<string, number>(), last = new Map<string, number>();
    const measure = (memory: Map<string, number>) => {
      for (const [name, pid] of processes) memory.set(name, anonymousMB(pid));
    };
    for (let second = 1; second <= SECONDS; second++) {
      if (second <= FIRST_S || second > FIRST_S + REST_S) lab.change(CHANGES_PER_S);
      const leftS = (second <= FIRST_S ? FIRST_S : SECONDS) - second;
      if (leftS < COLLECTION_S) { for (const [, pid] of processes) Deno.kill(pid, COLLECT); }
      await sleep(systemClock, 1000);
      if (leftS === 0) measure(second === FIRST_S ? first : last);
    }
    for (const { name, processes, problems } of held) {
      const found = [...problems()];
      for (const process of Object.keys(processes)) {
        const [before, after] = [first.get(process)!, last.get(process)!];
        console.log(`${process.padEnd(30)} ${before.toFixed(1)} MB after ${FIRST_S} s, ${after.toFixed(1)} at the end`);
        if (after > before + GROWTH_MB) found.push(`${process} grew by ${(after - before).toFixed(1)} MB`);
      }
      if (found.length > 0) failures.push(`${name}: ${found.join("; ")}`);
    }
  } catch (error) {
    failures.push(errorText(error));
  } finally {
    await lab.close();
  }
  if (failures.length > 0) console.log(lab.logs().join("\n\n"));
  for (const failure of failures) console.log(`FAILED: ${failure}`);
  console.log(`\n${Math.max(0, held.length - failures.length)} passed, ${failures.length} failed`);
  return failures.length === 0 ? 0 : 1;
}

Deno.exit(await runIsolated(import.meta.url, inside));
