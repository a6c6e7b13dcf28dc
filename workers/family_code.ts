import { toolsOf } from "../backends/tools.ts";
import type { ProxyMode } from "../core/model.ts";
import { FAMILIES, type Family } from "../platform/address.ts";
import type { WorkerCode } from "./protocol.ts";
import { workerEntry } from "./web_worker.ts";

/**
 * The code and the tools of a family's worker. It may run the other family's tools too: what it may not do itself, its
 * sibling's successor could not do.
 */
export function familyCode(mode: ProxyMode, family: Family): WorkerCode {
  const tools = new Set(FAMILIES.flatMap((one) => toolsOf(mode, one)));
  return { entry: workerEntry("family"), name: `sluice-${family}`, tools: [...tools] };
}
