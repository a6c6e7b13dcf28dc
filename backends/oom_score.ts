import { errorText, type Logger } from "../platform/log.ts";
import { failureText, type Runner } from "./runner.ts";

/**
 * Tells the kernel how ready to be to end this process when memory runs out (kube-proxy's oomScoreAdj), through `choom`:
 * /proc cannot be written from here. Lowering it needs a right (CAP_SYS_RESOURCE) that serving does not, so that
 * a failure is told and nothing more.
 */
export async function adjustOomScore(runner: Runner, logger: Logger, score: number): Promise<void> {
  try {
    const result = await runner.run({ tool: "choom", args: ["-n", String(score), "-p", String(Deno.pid)] });
    if (result.exitCode !== 0) throw new Error(failureText("choom", result));
  } catch (error) {
    logger.info("the process's oom_score_adj stays as it is", { wanted: score, error: errorText(error) });
  }
}
