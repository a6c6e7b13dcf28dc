import { duration, option } from "../../config/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import type { ControlAnswers, ProxyStatus } from "../../answers/control/mod.ts";
import { errorText, sleep, writeToStderr } from "../../platform/mod.ts";
import { type Command, type Invocation, jsonText, usageError } from "./command.ts";
import { outputFlags, outputOf } from "./output.ts";

const OUTPUT = outputFlags(["text", "json"]);
const WAIT = option("wait", duration(), "Wait up to this time until everything is in effect: 60s.");
/** The interval of attempts while waiting, in milliseconds. */
const RETRY_MS = 250;
const MOST_BROKEN = 20;
/** The exit status if no proxy runs, as in the LSB's `status` action. */
const NOT_RUNNING = 3;

/** The status and the first page of broken services; undefined if the proxy has not read the cluster yet. */
interface Report {
  readonly status: ProxyStatus;
  readonly broken: ServicePage | undefined;
}

/** `sluice status`: whether the running proxy has everything in effect, on one screen. */
export const statusCommand: Command = {
  name: "status",
  summary: "Show on one screen whether the running proxy has everything in effect.",
  arguments: [],
  flags: [WAIT, ...OUTPUT.flags],
  withoutSource: true,
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
    const report = await awaitOrder(invocation, controlSocket, waitMs);
    if (typeof report === "string") {
      writeToStderr(`sluice: ${report}\n`);
      return NOT_RUNNING;
    }
    const { isInOrder } = await import("../../answers/control/mod.ts");
    if (outputOf(invocation, OUTPUT) === "json") print(jsonText(report));
    else {
      const { statusLines } = await import("../text/mod.ts");
      const layout = { columns: Infinity, colour: Deno.stdout.isTerminal() && !Deno.noColor };
      print(statusLines(report.status, report.broken, layout).map((line) => `${line}\n`).join(""));
    }
    return isInOrder(report.status) ? 0 : 1;
  },
};

/** Returns the first report in which everything is in effect, or the last one; or why no proxy answered. */
async function awaitOrder({ clock, signal }: Invocation, path: string, waitMs: number): Promise<Report | string> {
  const { connectToProxy, isInOrder, NoProxyError } = await import("../../answers/control/mod.ts");
  const endMs = clock.monotonic() + waitMs;
  for (;;) {
    let report: Report | string;
    try {
      report = await readReport(await connectToProxy(path));
      if (isInOrder(report.status)) return report;
    } catch (error) {
      if (!(error instanceof NoProxyError) && waitMs === 0) throw error;
      report = errorText(error);
    }
    if (clock.monotonic() >= endMs) return report;
    await sleep(clock, RETRY_MS, signal);
  }
}

async function readReport(answers: ControlAnswers): Promise<Report> {
  const status = await answers.status();
  // The proxy may not have read the cluster yet.
  const broken = await answers.browse({ search: "", attention: true, page: 1, pageSize: MOST_BROKEN })
    .catch(() => undefined);
  return { status, broken };
}
