import type { SyncProblem } from "../core/model/mod.ts";
import type { Logger } from "../platform/mod.ts";

/** Logs the problems of setups and syncs: a problem that persists is logged once, not with every retry. */
export interface ProblemLog {
  /** Logs the problems that the last call did not include. */
  log(problems: readonly SyncProblem[], phase: "setup" | "sync", retryInMs: number): void;
  /** Clears the problems, and logs that they are resolved if there were any. */
  clear(): void;
}

/** A log without problems. */
export function createProblemLog(logger: Logger): ProblemLog {
  let known: ReadonlySet<string> = new Set();
  return {
    log(problems, phase, retryInMs) {
      const current = new Set<string>();
      for (const { code, servicePort, message } of problems) {
        const key = `${code}|${servicePort ?? ""}|${message}`;
        current.add(key);
        if (known.has(key)) continue;
        const what = servicePort === undefined ? `${phase} failed` : "service port not programmed";
        logger.error(`${what}, retrying`, {
          code,
          servicePort,
          error: message,
          inSeconds: Math.round(retryInMs / 100) / 10,
        });
      }
      known = current;
    },
    clear() {
      if (known.size > 0) logger.info("earlier problems are resolved");
      known = new Set();
    },
  };
}
