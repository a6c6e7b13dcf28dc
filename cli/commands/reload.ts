import { applicable, followConfiguration } from "../../config/mod.ts";
import type { ProxyOptions } from "../../proxy/mod.ts";
import { abortedBy } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";
import { createProcessLogger } from "./logging.ts";

/** The part of a run that a changed configuration file changes. */
export type Changing = Pick<ProxyOptions, "configuration" | "logger" | "logging" | "replaced">;

/**
 * Runs the proxy, and again with each valid change of its configuration file, which kube-proxy ends for. The rules stay
 * in between, and with them the connections. Resolves with the exit status of the last run.
 */
export async function runWithReloads(
  { configuration, flags, logger, logging, clock, signal, reread }: Invocation,
  run: (changing: Changing) => Promise<number>,
): Promise<number> {
  const path = flags.get("config") as string | undefined;
  if (!path || configuration.cleanup || configuration.initOnly) return await run({ configuration, logger, logging });
  const ended = new AbortController();
  const following = abortedBy(signal, ended.signal).signal;
  const follower = followConfiguration({ path, read: reread, clock, logger, signal: following });
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
      current.logger.info("configuration file changed, running with the new configuration", { file: path });
      if (needRestart.length > 0) {
        current.logger.warn("these settings take effect after a restart", { settings: needRestart.join(", ") });
      }
    }
  } finally {
    ended.abort();
  }
}
