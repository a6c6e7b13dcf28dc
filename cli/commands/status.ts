/** `sluice status` and `sluice top`: the state of the running proxy, once and live. */
import type { Asker, ControlAnswers } from "../../answers/control/mod.ts";
import type { NodeView } from "../../answers/status/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import {
  askerOf,
  type Command,
  type Invocation,
  linesText,
  printAs,
  PROXY_STATUS,
  proxyFor,
  socketFor,
  TEXT_OR_JSON,
  TIMEOUT_FLAG,
  toolRunner,
} from "./command.ts";
import { type Finding, findingsText } from "../../core/problems/mod.ts";
import type { TopContent, TopView } from "../text/mod.ts";
import { boolean, duration, type ExitStatuses, flagValue, NO_ANSWER, option } from "../../config/mod.ts";
import {
  abortedBy,
  errorText,
  isInteractive,
  openScreen,
  printable,
  sleep,
  writeToStderr,
} from "../../platform/mod.ts";

const WAIT = option("wait", duration(), "Wait up to this time until everything is in effect: 60s.");
/** The exit statuses of what shows whether a node has everything in effect. */
const STATUS_STATUSES: ExitStatuses = {
  0: "everything is in effect",
  1: "something is broken or not in effect yet, as the first line says; or the command failed",
  ...PROXY_STATUS,
};

/** `sluice status`: whether the running proxy has everything in effect, on one screen. */
export const statusCommand: Command = {
  name: "status",
  summary: "Show on one screen whether the running proxy has everything in effect.",
  flags: [WAIT, TIMEOUT_FLAG, ...TEXT_OR_JSON],
  withoutSource: true,
  installed: { part: "socket" },
  startsPrograms: true,
  exitStatuses: STATUS_STATUSES,
  examples: {
    "sluice status": "one screen",
    "sluice status --wait 60s": "in a script, after a start or an upgrade",
    "sluice status -o json": "every count, for a program",
  },
  async start(invocation) {
    const waitMs = flagValue(invocation.flags, WAIT) ?? 0;
    const report = await awaitOrder(askerOf(invocation), socketFor("status", invocation), waitMs);
    if (typeof report === "string") {
      writeToStderr(`sluice: ${report}\n${await whyNotRunning(invocation)}`);
      return NO_ANSWER;
    }
    const { inOrder } = report.status;
    const { statusLines } = await import("../text/mod.ts");
    const firewalls = await firewallsBefore(report.status, invocation);
    printAs(
      invocation,
      { ...report, firewalls },
      () => linesText(statusLines(report.status, report.needy)) + (firewalls.length > 0 ? findingsText(firewalls) : ""),
    );
    return inOrder ? 0 : 1;
  },
};

/** The chains of other programs that drop connections to services; empty if they cannot be read here. */
async function firewallsBefore({ mode }: NodeView, invocation: Invocation): Promise<readonly Finding[]> {
  // A named socket may be of a proxy in another network namespace.
  if (askerOf(invocation).networkNamespace === undefined) return [];
  const { findFirewalls } = await import("../../backends/preflight/mod.ts");
  const { describeMode } = await import("../../backends/mod.ts");
  return await findFirewalls(describeMode(mode), await toolRunner(invocation));
}

/** The reason why no proxy answers, from the service manager and the end of the service's log; empty if there is no service. */
async function whyNotRunning(invocation: Invocation): Promise<string> {
  const { serviceHere } = await import("./service.ts");
  const service = await serviceHere(invocation);
  if (service === undefined) return "";
  try {
    const { words, restarts } = await service.state();
    return stoppedText(words, restarts, await service.log(), service.manual.log);
  } catch {
    // No service of this name is installed, or its manager does not answer.
    return "";
  }
}

/** Says how a service is, how often it was restarted, the last line of its log, and where to read more of it. */
export function stoppedText(words: string, restarts: number, log: string, command: string): string {
  const last = log.trimEnd().split("\n").at(-1)!;
  const restarted = restarts > 0 ? `, restarted ${restarts === 1 ? "once" : `${restarts} times`}` : "";
  return `sluice: the service is ${words}${restarted}${last === "" ? "" : `; last: ${printable(last)}`}\n` +
    `sluice: ${command} shows more; \`sluice check\` looks for the cause\n`;
}

const RETRY_MS = 250;
/** The number of services in a report: on one screen, and of `top --once`. */
const MOST_NEEDY = 20;
const MOST_NEEDY_ONCE = 50;

/** The status and the first page of services that need attention; undefined if the proxy has not read the cluster yet. */
export interface Report {
  readonly status: NodeView;
  readonly needy: ServicePage | undefined;
}

/**
 * Returns the first report in which everything is in effect, or the last one; or why no proxy answered.
 * @param waitMs the maximum wait; 0 for one attempt
 * @param onAttempt called after each attempt that found something missing; true ends the wait
 */
export async function awaitOrder(
  asker: Asker,
  path: string,
  waitMs: number,
  onAttempt?: (found: Report | string) => Promise<boolean>,
): Promise<Report | string> {
  const { connectToProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  const { clock, signal } = asker;
  const endMs = clock.monotonic() + waitMs;
  for (;;) {
    let found: Report | string;
    try {
      found = await readReport(await connectToProxy(path, asker), MOST_NEEDY);
      if (found.status.inOrder) return found;
    } catch (error) {
      if (!(error instanceof NoProxyError) && waitMs === 0) throw error;
      found = errorText(error);
    }
    if (clock.monotonic() >= endMs || await onAttempt?.(found)) return found;
    await sleep(clock, RETRY_MS, signal);
  }
}

async function readReport(answers: ControlAnswers, pageSize: number): Promise<Report> {
  const status = await answers.status();
  // The proxy may not have read the cluster yet.
  const needy = await answers.browse({ search: "", attention: true, order: "attention", page: 1, pageSize })
    .catch(() => undefined);
  return { status, needy };
}

const REFRESH_MS = 1000;

/** `sluice top`: the status page in a terminal. */
export const topCommand: Command = {
  name: "top",
  summary: "Show live status of the running proxy.",
  flags: [
    option("once", boolean(), "Print the status once and exit; the default if the output is not a terminal."),
    TIMEOUT_FLAG,
  ],
  withoutSource: true,
  installed: { part: "socket" },
  exitStatuses: PROXY_STATUS,
  examples: { "sluice top": "live, until you press q", "sluice top --once": "once, as plain lines" },
  async start(invocation) {
    const { flags, print } = invocation;
    const proxy = await proxyFor("top", invocation);
    const { topLines } = await import("../text/mod.ts");
    if (flags.get("once") !== true && isInteractive()) {
      await showLive(invocation, proxy);
      return 0;
    }
    const { status, needy } = await readReport(proxy, MOST_NEEDY_ONCE);
    print(linesText(topLines(status, needy)));
    return 0;
  },
};

/** Shows the report, and follows the keys, until it is quit. */
async function showLive({ clock, print, signal }: Invocation, proxy: ControlAnswers): Promise<void> {
  const { afterKey, FIRST_VIEW, roomForServices, topScreen } = await import("../text/mod.ts");
  const ending = abortedBy(signal);
  let content: TopContent = { status: await proxy.status(), services: undefined, trouble: undefined };
  let view: TopView = FIRST_VIEW;
  let pause = new AbortController();
  const layout = () => ({ ...screen.size(), colour: !Deno.noColor });
  // What the shown services depend on.
  let basis = "";
  const screen = openScreen(print, {
    onKey(key) {
      const next = afterKey(view, key, roomForServices(content, layout()), content.services);
      if (next === undefined) ending.abort();
      else view = next;
      pause.abort();
    },
    onResize: () => pause.abort(),
  });
  ending.signal.addEventListener("abort", () => pause.abort());
  try {
    while (!ending.signal.aborted) {
      pause = new AbortController();
      try {
        const status = await proxy.status();
        const rows = roomForServices({ status, trouble: undefined }, layout());
        const current = JSON.stringify([status.stamp, view, rows]);
        const known = current === basis && !content.services?.countsTraffic ? content.services : undefined;
        const services = known ?? await servicesOf(view, rows, proxy);
        basis = current;
        // Unless the user has chosen another order, traffic decides which services are on the first screen.
        if (content.services === undefined && services?.countsTraffic && view === FIRST_VIEW) {
          view = { ...view, order: "traffic" };
          pause.abort();
        }
        content = { status, services, trouble: undefined };
      } catch (error) {
        content = { ...content, trouble: `no answer: ${errorText(error)}` };
      }
      if (ending.signal.aborted) break;
      screen.draw(topScreen(content, view, layout()));
      await sleep(clock, REFRESH_MS, pause.signal).catch(() => {});
    }
  } finally {
    screen.leave();
  }
}

/** The services of a view, at most `rows`; undefined if the proxy has not read the cluster yet. */
export async function servicesOf(
  { search, attention, order, offset }: TopView,
  rows: number,
  proxy: Pick<ControlAnswers, "browse">,
): Promise<ServicePage | undefined> {
  const page = 1 + Math.floor(offset / rows), skipped = offset % rows;
  const ask = (page: number) => proxy.browse({ search, attention, order, page, pageSize: rows });
  const first = await ask(page).catch(() => undefined);
  if (first === undefined) return undefined;
  const rest = skipped > 0 && page < first.pages ? (await ask(page + 1)).services : [];
  return { ...first, services: [...first.services, ...rest].slice(skipped, skipped + rows) };
}
