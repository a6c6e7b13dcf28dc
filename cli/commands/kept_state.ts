/** What `sluice run` needs to keep the state of its server, opened before the permissions for it are dropped. */
import { type Configuration, isServer } from "../../config/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { PodWatch } from "../../cri/mod.ts";
import { errorText, searchPath } from "../../platform/mod.ts";
import type { KeptState } from "../../sources/mod.ts";
import type { Invocation } from "./command.ts";

/**
 * Opens the file of the kept state, and starts to look for rules in the kernel and for pods in the container runtime; must run
 * before the permissions to write files and to start programs are dropped. The proxy works without a file; why there is none is reported as a problem.
 */
export async function openKeptState(
  { stateDirectory, runtimeSocket, source, site, cleanup, initOnly }: Configuration,
  { clock, logger }: Pick<Invocation, "clock" | "logger">,
  onProblems: ReportProblems,
): Promise<KeptState | undefined> {
  if (runtimeSocket !== undefined && stateDirectory === undefined) {
    logger.warn("--container-runtime-endpoint has no effect without --state-directory");
  }
  if (stateDirectory === undefined || !isServer(source) || cleanup || initOnly) return undefined;
  const { openStateDirectory } = await import("../../sources/kept/mod.ts");
  const { isKernelEmpty, MODE_DESCRIPTIONS } = await import("../../backends/mod.ts");
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  try {
    const file = openStateDirectory(stateDirectory);
    const siteFile = site.name === "" ? undefined : openStateDirectory(stateDirectory, "site");
    const runner = createProcessRunner({ clock, path: searchPath() });
    const pods = runtimeSocket === undefined ? undefined : await watchPods(runtimeSocket, onProblems);
    return { file, siteFile, isKernelEmpty: isKernelEmpty(MODE_DESCRIPTIONS, runner), pods };
  } catch (error) {
    onProblems("state directory", [{ code: "state-not-kept", subject: stateDirectory, detail: errorText(error) }]);
    return undefined;
  }
}

/** Starts to watch the pods of the container runtime; undefined, and a problem, if that is impossible. */
async function watchPods(socket: string, onProblems: ReportProblems): Promise<PodWatch | undefined> {
  const { startRuntimeWatch } = await import("../../workers/mod.ts");
  try {
    return startRuntimeWatch(socket);
  } catch (error) {
    onProblems("container runtime", [{ code: "runtime-unreachable", subject: socket, detail: errorText(error) }]);
    return undefined;
  }
}
