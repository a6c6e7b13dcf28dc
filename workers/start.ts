/** Starts the families' Web Workers with no more permissions than they need. */
import type { StartFamily } from "../core/channel/mod.ts";
import { searchPath } from "../platform/mod.ts";
import { createCrew } from "./crew.ts";
import { familyCode } from "./family_code.ts";
import { type MemoryWatch, watchOwnMemory } from "./memory_watch.ts";
import { superviseFamily } from "./supervise.ts";

/**
 * Starts both families' workers, which wait for the call of the function returned; it keeps a family's worker running
 * until the link is stopped. After this, the isolate needs no right to start programs or to read the environment any more.
 * `onLost` is called when no worker is left, or when only a restart helps. Throws where this program may not run the tools of the mode.
 */
export function startFamilyWorkers(onLost: (reason: string) => void): StartFamily {
  const crew = createCrew({ codeOf: familyCode, path: searchPath(), onLost });
  let memory: MemoryWatch | undefined;
  return ({ clock, logger, ...plain }, listener) =>
    superviseFamily({
      start: { type: "start", ...plain },
      spawn: (workerListener) => crew.spawn(plain.family, workerListener),
      listener,
      clock,
      logger,
      memory: memory ??= watchOwnMemory(clock),
    });
}
