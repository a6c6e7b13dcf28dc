/** Starts workers of `sluice serve`. */
import type { FromServingWorker, ToServingWorker } from "../kpng/server/mod.ts";
import { machineCores, type WorkerHandle, type WorkerListener } from "../platform/mod.ts";
import { spawnWebWorker, workerEntry } from "./web_worker.ts";

/** The maximum default number of workers: each serves about 100 joining nodes per second. */
const MOST_BY_DEFAULT = 4;

/** The default number of workers: one per core except the main isolate's; none on a single core. */
export async function defaultServingWorkers(): Promise<number> {
  return Math.min(await machineCores() - 1, MOST_BY_DEFAULT);
}

/** Starts a worker of `sluice serve`. */
export function spawnServingWorker(listener: WorkerListener<FromServingWorker>): WorkerHandle<ToServingWorker> {
  return spawnWebWorker({ entry: workerEntry("serve"), name: "sluice-serve", tools: [], network: true }, listener);
}
