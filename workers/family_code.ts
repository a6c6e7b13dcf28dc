import { backendTools } from "../backends/mod.ts";
import type { Family } from "../platform/mod.ts";
import type { WorkerCode } from "./protocol.ts";
import { workerEntry } from "./web_worker.ts";

/** The code and the tools of a family's worker. */
export function familyCode(family: Family): WorkerCode {
  return { entry: workerEntry("family"), name: `sluice-${family}`, tools: backendTools() };
}
