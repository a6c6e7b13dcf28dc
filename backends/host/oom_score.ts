import { errorText, type Logger } from "../../platform/mod.ts";
import { type Runner, runOrThrow } from "../tools/mod.ts";

/** No other work waits for it, and a healthy choom takes milliseconds. */
const TIMEOUT_MS = 5_000;

/**
 * Sets the oom_score_adj of this process (kube-proxy's oomScoreAdj) through `choom`, because this isolate cannot write
 * to /proc. The tool is started before this returns, so that the caller can then drop the permission to start programs.
 * Lowering the score needs CAP_SYS_RESOURCE, which serving does not, so a failure is only logged.
 */
export async function adjustOomScore(runner: Runner, logger: Logger, score: number): Promise<void> {
  try {
    const args = ["-n", String(score), "-p", String(Deno.pid)];
    await runOrThrow(runner, { tool: "choom", args, timeoutMs: TIMEOUT_MS });
  } catch (error) {
    logger.info("oom_score_adj not set, keeping the current one", { wanted: score, error: errorText(error) });
  }
}
