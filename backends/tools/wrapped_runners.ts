import { failureOf, isLackOfFeature } from "./failure.ts";
import { flawsOf, knownTool } from "./known_tools.ts";
import type { Runner, ToolCall } from "./runner.ts";

const TRIES = 3;

/**
 * Creates a runner for checks of the host. It runs a tool up to three times until the tool succeeds or reports that a feature
 * is missing: a single failure under load is not evidence of a missing feature. Inputs must be readable more than once, as
 * arrays are.
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

/** Exit statuses of programs that SIGHUP, SIGINT, SIGQUIT or SIGTERM ended. */
const ENDED_ON_REQUEST: readonly number[] = [129, 130, 131, 143];

/** A tool whose last run was ended by a signal. */
export interface KilledTool {
  readonly tool: string;
  /** Its version, the signal, and known flaws with that signal: `nftables v1.0.6 (Lester Gooch #5): nft was ended by SIGSEGV`. */
  readonly detail: string;
}

/**
 * A runner that reports tools that signals end: they crash, or the kernel needs their memory. Signals that request
 * an end are not reported: Ctrl-C and `timeout` send them to the whole process group. A tool leaves the list with its next run
 * that no signal ends.
 * @param onChange called with all such tools when one joins or leaves
 */
export function watchKilledTools(runner: Runner, onChange: (killed: readonly KilledTool[]) => void): Runner {
  const killed = new Map<string, KilledTool>();

  /** The first line that a tool prints about its version; empty if it cannot. */
  const versionOf = async (tool: string): Promise<string> => {
    try {
      return (await runner.run({ tool, args: ["--version"] })).stdout.split("\n", 1)[0]!.trim();
    } catch {
      return "";
    }
  };

  return {
    ...runner,
    async run(call) {
      const result = await runner.run(call), { tool, args } = call;
      const failure = failureOf(tool, result);
      if (failure?.kind === "killed") {
        if (ENDED_ON_REQUEST.includes(result.exitCode)) return result;
        const version = await versionOf(tool);
        const known = knownTool(tool);
        const flaws = known &&
          flawsOf(known, version, ({ signal }) => signal !== undefined && failure.text.includes(signal));
        killed.set(tool, { tool, detail: `${version && `${version}: `}${failure.text}${flaws && `; ${flaws}`}` });
        onChange([...killed.values()]);
      } else if (!args.includes("--version") && killed.delete(tool)) {
        onChange([...killed.values()]);
      }
      return result;
    },
  };
}
