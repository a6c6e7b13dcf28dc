/** Runs a program for each state of a node: `sluice watch local --exec`. */
import { type Clock, createBackoff, errorText, type Logger, type RunProgram, sleep } from "../../platform/mod.ts";

/** A program that gets each state on its standard input. */
interface Hook {
  /** Runs the program with this state, or after the current run; a state that still waits is replaced. */
  give(state: string): void;
  /** Resolves when no run is in progress: before the next one, or while a failed one waits to be repeated. */
  idle(): Promise<void>;
}

/**
 * Creates a hook. A run that fails is repeated with backoff, with the newest state. The signal ends the retries; a run that has
 * begun is awaited.
 * @param random a number from 0 up to 1; Math.random by default
 */
export function createHook(
  program: string,
  run: RunProgram,
  timeoutMs: number,
  { clock, logger, signal }: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
  random?: () => number,
): Hook {
  const backoff = createBackoff({ firstMs: 250, longestMs: 30_000, random });
  const log = logger.with({ program });
  let waiting: string | undefined;
  let current: Promise<void> | undefined;
  let isLooping = false;

  const runOnce = async (stdin: string) => {
    const { exitCode, stderr } = await run({ program, args: [], env: {}, stdin, timeoutMs });
    if (exitCode === 0) return;
    const lastLines = stderr.trimEnd().split("\n").slice(-LINES).join(" | ");
    throw new Error(`exit status ${exitCode}${stderr === "" ? "" : `: ${lastLines}`}`);
  };
  const loop = async () => {
    while (waiting !== undefined && !signal.aborted) {
      const state = waiting;
      waiting = undefined;
      const attempt = runOnce(state);
      current = attempt.catch(() => {});
      try {
        await attempt;
        backoff.reset();
        log.solved();
        log.debug("program has taken the state");
      } catch (error) {
        current = undefined;
        waiting ??= state;
        const retryInMs = Math.round(backoff.nextMs());
        log.warn("program failed, retrying with the newest state", { error: errorText(error), retryInMs });
        await sleep(clock, retryInMs, signal).catch(() => {});
      }
      current = undefined;
    }
    isLooping = false;
  };

  return {
    give(state) {
      waiting = state;
      if (isLooping) return;
      isLooping = true;
      loop();
    },
    idle: async () => await current,
  };
}

const LINES = 5;
