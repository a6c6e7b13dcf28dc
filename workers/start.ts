/** Starts Web Workers with no more permissions than they need. */
import type { StartFamily } from "../core/channel/mod.ts";
import { searchPath } from "../platform/mod.ts";
import { familyCode } from "./calls.ts";
import { createWebWorker, workerEntry } from "./web_worker.ts";
import { type MemoryWatch, watchOwnMemory } from "./memory_watch.ts";
import { superviseFamily } from "./supervise.ts";
import { createWorkerPool } from "./worker_pool.ts";
import type { PodReport, PodWatch } from "../core/objects/mod.ts";

/**
 * Starts both families' workers. They wait for a call of the returned function, which keeps a family's worker running until
 * its link is stopped. From then on this isolate needs no right to start programs or to read the environment. `onLost` is
 * called if no worker is left, or if only a restart helps. Throws if this program may not run the tools.
 */
export function startFamilyWorkers(onLost: (reason: string) => void): StartFamily {
  const spawn = createWorkerPool({ codeOf: familyCode, path: searchPath(), onLost });
  let memory: MemoryWatch | undefined;
  return ({ clock, logger, relay: _, ...plain }, listener) =>
    superviseFamily({
      start: { type: "start", ...plain },
      spawn: (workerListener) => spawn(plain.family, workerListener),
      listener,
      clock,
      logger,
      memory: memory ??= watchOwnMemory(clock),
    });
}

/** Adds relays to the families' workers, where a configuration needs any; their code is loaded late. */
export function relaysOnDemand(startFamily: StartFamily): (isNeeded: boolean) => Promise<StartFamily> {
  let loaded: Promise<StartFamily> | undefined;
  return async (isNeeded) => {
    if (isNeeded) loaded ??= import("./relays.ts").then(({ withRelays }) => withRelays(startFamily));
    return await loaded ?? startFamily;
  };
}

/**
 * Watches the pods with a worker that may connect to the container runtime's socket and do nothing else. This isolate needs that
 * permission only during this call.
 */
export function startRuntimeWatch(path: string): PodWatch {
  const listeners = new Set<(report: PodReport) => void>();
  let last: PodReport | undefined;
  let isEnded = false;
  const publish = (report: PodReport) => {
    last = report;
    for (const listener of listeners) listener(report);
  };
  const code = { entry: workerEntry("runtime"), name: "sluice-runtime", tools: [], socket: path };
  const worker = createWebWorker(code, (reason) => {
    worker.terminate();
    publish({ problem: `the worker that asks it is gone: ${reason}` });
  });
  worker.onmessage = ({ data }: MessageEvent<PodReport>) => publish(data);
  worker.postMessage(path);
  return {
    endpoint: `unix://${path}`,
    follow(listener) {
      listeners.add(listener);
      if (last !== undefined) listener(last);
      return () => listeners.delete(listener);
    },
    end() {
      isEnded = true;
      listeners.clear();
      worker.terminate();
    },
    isEnded: () => isEnded,
  };
}
