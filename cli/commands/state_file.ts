/** The file in which `sluice run` keeps the state of its server. */
import { type Configuration, isServer } from "../../config/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { StateFile } from "../../sources/mod.ts";

/**
 * Opens the file of the kept state; must run before the write permission is dropped, which the open file does not need. The
 * proxy works without one; why there is none is reported as a problem.
 */
export async function openStateFile(
  { stateDirectory, source, cleanup, initOnly }: Configuration,
  onProblems: ReportProblems,
): Promise<StateFile | undefined> {
  if (stateDirectory === undefined || !isServer(source) || cleanup || initOnly) return undefined;
  const { openStateDirectory } = await import("../../sources/kept/mod.ts");
  try {
    return openStateDirectory(stateDirectory);
  } catch (error) {
    onProblems("state directory", [{ code: "state-not-kept", subject: stateDirectory, detail: errorText(error) }]);
    return undefined;
  }
}
