import { applicable, followConfiguration } from "../../config/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { ProxyOptions } from "../../proxy/mod.ts";
import { abortedBy } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";
import { createProcessLogger } from "./logging.ts";

/** Options of a run that depend on the configuration file. */
export type ReloadableOptions = Pick<ProxyOptions, "configuration" | "logger" | "logging" | "replaced">;

/**
 * Runs the proxy, and restarts it in place after each valid change of its configuration file (kube-proxy exits instead).
 * Rules and connections stay in between. `onProblems` receives an invalid file. Resolves with the exit status of the last run.
 */
export async function runWithReloads(
  { configuration, flags, logger, logging, clock, signal, reread }: Invocation,
  onProblems: ReportProblems,
  run: (reloadable: ReloadableOptions) => Promise<number>,
): Promise<number> {
  const path = flags.get("config") as string | undefined;
  if (!path || configuration.cleanup || configuration.initOnly) return await run({ configuration, logger, logging });
  const ended = new AbortController();
  const following = abortedBy(signal, ended.signal).signal;
  const follower = followConfiguration({ path, read: reread, clock, logger, onProblems, signal: following });
  try {
    for (let current = { configuration, logger, logging };;) {
      const replaced = new AbortController();
      const next = follower.next(current.configuration).then((changed) => {
        if (changed) replaced.abort(new Error("the configuration file changed"));
        return changed;
      });
      const status = await run({ ...current, replaced: replaced.signal });
      if (!replaced.signal.aborted || signal.aborted) return status;
      const changed = (await next)!;
      const { configuration, needRestart } = applicable(current.configuration, changed.configuration);
      current = { configuration, ...createProcessLogger(configuration) };
      for (const warning of changed.warnings) current.logger.warn(warning);
      current.logger.info("configuration file changed, applying it", { file: path });
      if (needRestart.length > 0) {
        current.logger.warn("changed settings take effect after a restart", { settings: needRestart.join(", ") });
      }
    }
  } finally {
    ended.abort();
  }
}
