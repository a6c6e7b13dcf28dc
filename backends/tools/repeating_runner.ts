import { failureOf, isLackOfFeature } from "./failure.ts";
import type { Runner, ToolCall } from "./runner.ts";

const TRIES = 3;

/**
 * Creates a runner for checks of the host. It runs a tool up to three times until the tool succeeds or reports that a
 * feature is missing: one run that fails under load must not decide what a host can do. Inputs must be readable more
 * than once, as arrays are.
 */
export function repeatingRunner(runner: Runner): Runner {
  return {
    async run(call: ToolCall) {
      for (let tries = 1;; tries++) {
        const result = await runner.run(call);
        const failure = failureOf(call.tool, result);
        if (!failure || tries === TRIES || isLackOfFeature(failure)) return result;
      }
    },
  };
}
