import { lacksMeans, type Runner, type ToolCall, type ToolResult, wasKilled } from "../tools/mod.ts";

/** What tools say of a feature that the kernel, or the tool itself, does not have: iptables 1.8, nft 1.0, ipvsadm 1.31. */
const REFUSED = new RegExp(
  "not supported|unsupported|does not exist|no such file|no chain/target/match|invalid argument|protocol not available" +
    "|couldn't load|unknown (?:option|arg|match|target|identifier)|unrecognized|syntax error|datatype mismatch|conflicting protocols|bad argument",
  "i",
);

/** Whether a text of a tool's says that a feature is missing, which trying again does not change. */
export function saysRefused(text: string): boolean {
  return REFUSED.test(text) && !lacksMeans(text);
}

/** Whether a tool failed since a feature is missing, and not by being killed, by a lack of memory, or without a word. */
export function isRefusal({ exitCode, stderr }: ToolResult): boolean {
  return exitCode !== 0 && !wasKilled(exitCode) && saysRefused(stderr);
}

const TRIES = 3;

/**
 * A runner for questions about the host, which runs a tool again, up to three times in all, where it failed without saying
 * that a feature is missing: one run that fails under load must not decide what a host can do. Inputs must be readable
 * more than once, as arrays are.
 */
export function repeatingRunner(runner: Runner): Runner {
  return {
    async run(call: ToolCall) {
      for (let tries = 1;; tries++) {
        const result = await runner.run(call);
        if (result.exitCode === 0 || tries === TRIES || isRefusal(result)) return result;
      }
    },
  };
}
