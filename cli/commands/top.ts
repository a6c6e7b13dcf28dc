import { boolean, option } from "../../config/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { TopContent, TopView } from "../text/mod.ts";
import { abortedBy, errorText, sleep } from "../../platform/mod.ts";
import { type Command, type Invocation, usageError } from "./command.ts";

const REFRESH_MS = 1000;
const MOST_BROKEN = 50;

/** `sluice top`: the status page in a terminal. */
export const topCommand: Command = {
  name: "top",
  summary: "Show live status of the running proxy.",
  arguments: [],
  flags: [option("once", boolean(), "Print the status once and exit; the default if the output is not a terminal.")],
  withoutSource: true,
  installed: { part: "socket" },
  examples: [
    { line: "sluice top", does: "live, until you press q" },
    { line: "sluice top --once", does: "once, as plain lines" },
  ],
  async start(invocation) {
    const { configuration: { controlSocket }, flags, print } = invocation;
    if (controlSocket === undefined) return usageError("top needs a running proxy: set --control-socket to its socket");
    const { connectToProxy } = await import("../../answers/control/mod.ts");
    const { PLAIN, topLines } = await import("../text/mod.ts");
    const { isInteractive } = await import("../../platform/mod.ts");
    const proxy = await connectToProxy(controlSocket);
    if (flags.get("once") !== true && isInteractive()) {
      await showLive(invocation, proxy);
      return 0;
    }
    const status = await proxy.status();
    // The proxy may not have read the cluster yet.
    const broken = await proxy.browse({ search: "", attention: true, page: 1, pageSize: MOST_BROKEN })
      .catch(() => undefined);
    print(topLines({ status, services: broken, trouble: undefined }, PLAIN).map((line) => `${line}\n`).join(""));
    return 0;
  },
};

/** Shows the report, and follows the keys, until it is quit. */
async function showLive({ clock, print, signal }: Invocation, proxy: ControlAnswers): Promise<void> {
  const { afterKey, FIRST_VIEW, roomForServices, topScreen } = await import("../text/mod.ts");
  const { openScreen } = await import("../../platform/mod.ts");
  const ending = abortedBy(signal);
  let content: TopContent = { status: await proxy.status(), services: undefined, trouble: undefined };
  let view: TopView = FIRST_VIEW;
  let pause = new AbortController();
  const layout = () => ({ ...screen.size(), colour: !Deno.noColor });
  const draw = () => screen.draw(topScreen(content, view, layout()));
  const fetchServices = createServicesFetch(proxy);
  const screen = openScreen(print, {
    onKey(key) {
      const rows = roomForServices(content, layout());
      const next = afterKey(view, key, {
        rows,
        total: content.services?.total ?? 0,
        countsTraffic: content.services?.countsTraffic ?? false,
      });
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
        const services = await fetchServices(
          status.stamp,
          view,
          roomForServices({ status, trouble: undefined }, layout()),
        );
        // Unless the user chose another order meanwhile, traffic decides which services are on the first screen.
        if (content.services === undefined && services?.countsTraffic && view === FIRST_VIEW) {
          view = { ...view, order: "traffic" };
          pause.abort();
        }
        content = { status, services, trouble: undefined };
      } catch (error) {
        content = { ...content, trouble: `no answer: ${errorText(error)}` };
      }
      if (ending.signal.aborted) break;
      draw();
      await sleep(clock, REFRESH_MS, pause.signal).catch(() => {});
    }
  } finally {
    screen.leave();
  }
}

/** Returns a function that fetches the services of a view, only if they or the view may have changed. */
function createServicesFetch(proxy: ControlAnswers) {
  let known: { readonly key: string; readonly services: ServicePage } | undefined;
  return async (
    stamp: string,
    { search, attention, order, offset }: TopView,
    rows: number,
  ): Promise<ServicePage | undefined> => {
    const key = JSON.stringify([stamp, search, attention, order, offset, rows]);
    if (known?.key === key && !known.services.countsTraffic) return known.services;
    const page = 1 + Math.floor(offset / rows), skipped = offset % rows;
    const ask = (page: number) => proxy.browse({ search, attention, order, page, pageSize: rows });
    // The proxy may not have read the cluster yet.
    const first = await ask(page).catch(() => undefined);
    if (first === undefined) return undefined;
    const rest = skipped > 0 && page < first.pages ? (await ask(page + 1)).services : [];
    const services = { ...first, services: [...first.services, ...rest].slice(skipped, skipped + rows) };
    known = { key, services };
    return services;
  };
}
