import { duration, option } from "../../config/mod.ts";
import { writeToStderr } from "../../platform/mod.ts";
import { awaitOrder } from "./await_order.ts";
import { type Command, jsonText, usageError } from "./command.ts";
import { outputFlags, outputOf } from "./output.ts";

const OUTPUT = outputFlags(["text", "json"]);
const WAIT = option("wait", duration(), "Wait up to this time until everything is in effect: 60s.");
/** The exit status if no proxy runs, as in the LSB's `status` action. */
const NOT_RUNNING = 3;

/** `sluice status`: whether the running proxy has everything in effect, on one screen. */
export const statusCommand: Command = {
  name: "status",
  summary: "Show on one screen whether the running proxy has everything in effect.",
  arguments: [],
  flags: [WAIT, ...OUTPUT.flags],
  withoutSource: true,
  installed: { part: "socket" },
  examples: [
    { line: "sluice status", does: "exit status 0: all in effect; 1: something is broken; 3: no proxy runs" },
    { line: "sluice status --wait 60s", does: "in a script, after a start or an upgrade" },
    { line: "sluice status -o json", does: "every figure, for a program" },
  ],
  async start(invocation) {
    const { configuration: { controlSocket }, flags, print } = invocation;
    if (controlSocket === undefined) {
      return usageError("status needs a running proxy: set --control-socket to its socket");
    }
    const waitMs = flags.get(WAIT.name) as number | undefined ?? 0;
    const report = await awaitOrder(invocation, controlSocket, { waitMs });
    if (typeof report === "string") {
      writeToStderr(`sluice: ${report}\n`);
      return NOT_RUNNING;
    }
    const { summaryOf } = await import("../../answers/control/mod.ts");
    const summary = summaryOf(report.status);
    if (outputOf(invocation, OUTPUT) === "json") print(jsonText({ summary, ...report }));
    else {
      const { statusLines } = await import("../text/mod.ts");
      const layout = { columns: Infinity, colour: Deno.stdout.isTerminal() && !Deno.noColor };
      print(statusLines(report.status, report.broken, layout).map((line) => `${line}\n`).join(""));
    }
    return summary.inOrder ? 0 : 1;
  },
};
