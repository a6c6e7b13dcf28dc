/**
 * Looks at a Sluice from its node, as its users do, and prints what they see as a line of JSON each time:
 *
 *     looker.ts PROGRAM…        the command that starts Sluice; `status` is appended
 */
import { sleep, systemClock } from "../../platform/clock.ts";

/** One look at a running Sluice. */
export interface Look {
  /** The exit status of `sluice status`; -1 if it did not end in time. */
  readonly exit: number;
  /** The output of `sluice status`, both streams. */
  readonly status: string;
  /** The HTTP status of `/healthz`; 0 without an answer. */
  readonly healthz: number;
  /** The series of `sluice_problem` that are not 0. */
  readonly metrics: string;
  /** The number of repaired rules since the start. */
  readonly repaired: number;
  /** The present in the status page's JSON: all of it but the list of events. */
  readonly page: string;
}

const EVERY_MS = 250;
const DEADLINE_MS = 8_000;

async function get(url: string): Promise<{ readonly code: number; readonly text: string }> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(DEADLINE_MS) });
    return { code: response.status, text: await response.text() };
  } catch {
    return { code: 0, text: "" };
  }
}

async function status(program: readonly string[]): Promise<Pick<Look, "exit" | "status">> {
  const [command, ...args] = program;
  const child = new Deno.Command(command!, {
    args: [...args, "status"],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    signal: AbortSignal.timeout(DEADLINE_MS),
  });
  const { code, signal, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { exit: signal === null ? code : -1, status: decoder.decode(stdout) + decoder.decode(stderr) };
}

function pageText(json: string): string {
  if (json === "") return "";
  const { parts: { summary, problems, families } } = JSON.parse(json);
  return [summary, problems, families].join(" ").replaceAll(/<[^>]*>|\s+/g, " ");
}

async function look(program: readonly string[]): Promise<Look> {
  const [answer, healthz, metrics, page] = await Promise.all([
    status(program),
    get("http://127.0.0.1:10256/healthz"),
    get("http://127.0.0.1:10249/metrics"),
    get("http://127.0.0.1:10249/live"),
  ]);
  return {
    ...answer,
    healthz: healthz.code,
    repaired: [...metrics.text.matchAll(/^sluice_drift_repaired_total\{.* (\d+)$/gm)]
      .reduce((sum, [, count]) => sum + Number(count), 0),
    metrics: metrics.text.split("\n").filter((line) => /^sluice_problem\{.* [1-9]/.test(line)).join("\n"),
    page: pageText(page.text),
  };
}

if (import.meta.main) {
  for (;;) {
    console.log(JSON.stringify(await look(Deno.args)));
    await sleep(systemClock, EVERY_MS);
  }
}
