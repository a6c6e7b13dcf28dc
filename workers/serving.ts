/** Starts workers of `sluice serve`. */
import type { FromServingWorker, SpawnServing, ToServingWorker } from "../kpng/server/mod.ts";
import { type Clock, machineCores } from "../platform/mod.ts";
import { startWatchedWorker, type WorkerListener } from "./watched_worker.ts";
import { spawnWebWorker, workerEntry } from "./web_worker.ts";

/** The maximum default number of workers: each serves about 100 joining nodes per second. */
const MOST_BY_DEFAULT = 4;

/** The default number of workers: one per core except the main isolate's; none on a single core. */
export async function defaultServingWorkers(): Promise<number> {
  return Math.min(await machineCores() - 1, MOST_BY_DEFAULT);
}

/** Returns a function that starts a worker of `sluice serve`, and terminates it if it hangs. */
export function servingWorkers(clock: Clock): SpawnServing {
  const code = { entry: workerEntry("serve"), name: "sluice-serve", tools: [], network: true } as const;
  const spawn = (listener: WorkerListener<FromServingWorker>) =>
    spawnWebWorker<ToServingWorker, FromServingWorker>(code, listener);
  return (start, listener) => startWatchedWorker({ start, spawn, clock }, listener);
}
