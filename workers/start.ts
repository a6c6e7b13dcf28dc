/** Starts the families' Web Workers with no more permissions than they need. */
import { toolsOf } from "../backends/tools.ts";
import type { StartFamily } from "../core/family_link.ts";
import type { ProxyMode } from "../core/model.ts";
import { FAMILIES, type Family } from "../platform/address.ts";
import { createCrew } from "./crew.ts";
import { type MemoryWatch, watchOwnMemory } from "./memory_watch.ts";
import type { WorkerCode } from "./protocol.ts";
import { superviseFamily } from "./supervise.ts";
import { workerEntry } from "./web_worker.ts";

/**
 * Starts both families' workers, which wait for the call of the function returned; it keeps a family's worker running
 * until the link is stopped. After this, the isolate needs no right to start programs any more. `onLost` is called when
 * both workers are gone. Throws where this program may not run the tools of the mode.
 */
export function startFamilyWorkers(mode: ProxyMode, onLost: (reason: string) => void): StartFamily {
  const crew = createCrew({ codeOf: (family) => familyCode(mode, family), onLost });
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

/** A worker may run the other family's tools too: what it may not do itself, its sibling's successor could not do. */
function familyCode(mode: ProxyMode, family: Family): WorkerCode {
  const tools = new Set(FAMILIES.flatMap((one) => toolsOf(mode, one)));
  return { entry: workerEntry("family"), name: `sluice-${family}`, tools: [...tools] };
}
