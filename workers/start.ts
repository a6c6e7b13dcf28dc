/** Starts the families' Web Workers with no more permissions than they need. */
import type { StartFamily } from "../core/channel/mod.ts";
import { searchPath } from "../platform/mod.ts";
import { familyCode } from "./family_code.ts";
import { type MemoryWatch, watchOwnMemory } from "./memory_watch.ts";
import { superviseFamily } from "./supervise.ts";
import { createWorkerPool } from "./worker_pool.ts";

/**
 * Starts both families' workers. They wait for a call of the returned function, which keeps a family's worker running until
 * its link is stopped. From then on this isolate needs no right to start programs or to read the environment. `onLost` is
 * called if no worker is left, or if only a restart helps. Throws if this program may not run the tools.
 */
export function startFamilyWorkers(onLost: (reason: string) => void): StartFamily {
  const pool = createWorkerPool({ codeOf: familyCode, path: searchPath(), onLost });
  let memory: MemoryWatch | undefined;
  return ({ clock, logger, relay: _, ...plain }, listener) =>
    superviseFamily({
      start: { type: "start", ...plain },
      spawn: (workerListener) => pool.spawn(plain.family, workerListener),
      listener,
      clock,
      logger,
      memory: memory ??= watchOwnMemory(clock),
    });
}

/**
 * Returns a function that adds relays to the families' workers, where a configuration needs any; their code is loaded with the
 * first such configuration.
 */
export function relaysOnDemand(startFamily: StartFamily): (isNeeded: boolean) => Promise<StartFamily> {
  let loaded: Promise<StartFamily> | undefined;
  return async (isNeeded) => {
    if (isNeeded) loaded ??= import("./relays.ts").then(({ withRelays }) => withRelays(startFamily));
    return await loaded ?? startFamily;
  };
}
