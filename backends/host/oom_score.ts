import { errorText, type Logger } from "../../platform/mod.ts";
import { requireSuccess, type Runner } from "../tools/mod.ts";

/** Nothing waits for it, and a healthy choom takes milliseconds. */
const TIMEOUT_MS = 5_000;

/**
 * Tells the kernel how ready to be to end this process when memory runs out (kube-proxy's oomScoreAdj), through `choom`:
 * /proc cannot be written from here. Started before it returns, so that the right to start programs can be given up
 * then. Lowering it needs a right (CAP_SYS_RESOURCE) that serving does not, so that a failure is logged and nothing more.
 */
export async function adjustOomScore(runner: Runner, logger: Logger, score: number): Promise<void> {
  try {
    const result = await runner.run({
      tool: "choom",
      args: ["-n", String(score), "-p", String(Deno.pid)],
      timeoutMs: TIMEOUT_MS,
    });
    requireSuccess("choom", result);
  } catch (error) {
    logger.info("the process's oom_score_adj stays as it is", { wanted: score, error: errorText(error) });
  }
}
