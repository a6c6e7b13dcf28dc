import { boolean, option } from "../../config/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { TopContent } from "../text/mod.ts";
import { errorText, sleep } from "../../platform/mod.ts";
import { misused } from "./asking.ts";
import type { Command, Invocation } from "./command.ts";

const EVERY_MS = 1000;
const MOST_SERVICES = 50;
const QUITS = ["q", "Q", "\x03", "\x04"];

/** The status page in a terminal. */
export const topCommand: Command = {
  name: "top",
  summary: "Show how the running proxy is doing, live.",
  arguments: [],
  flags: [option("once", boolean(), "Print it once and end; so it is, too, where the output is no terminal.")],
  examples: [
    { line: "sluice top", does: "live, until q is pressed" },
    { line: "sluice top --once", does: "once, as lines" },
  ],
  async start(invocation) {
    const { configuration: { controlSocket }, flags, print } = invocation;
    if (controlSocket === undefined) return misused("top asks a running proxy: --control-socket must name its socket");
    const { askProxy } = await import("../../answers/control/mod.ts");
    const { topLines } = await import("../text/mod.ts");
    const { isInteractive } = await import("../../platform/mod.ts");
    const proxy = await askProxy(controlSocket);
    const look = createLook(proxy);
    const first = await look();
    if (flags.get("once") !== true && isInteractive()) {
      await showLive(invocation, first, look);
      return 0;
    }
    const layout = { columns: Infinity, rows: Infinity, colour: false };
    print(topLines(first, layout).map((line) => `${line}\n`).join(""));
    return 0;
  },
};

/** Asks for what there is to show; for the services only where they may have changed. */
function createLook(proxy: ControlAnswers): () => Promise<TopContent> {
  let stamp: string | undefined;
  let attention: ServicePage | undefined;
  return async () => {
    const status = await proxy.status();
    if (status.stamp !== stamp) {
      // It may be too early to tell.
      attention = await proxy.browse({ search: "", attention: true, page: 1, pageSize: MOST_SERVICES })
        .catch(() => undefined);
      stamp = attention && status.stamp;
    }
    return { status, attention, trouble: undefined };
  };
}

async function showLive(
  { clock, print, signal }: Invocation,
  first: TopContent,
  look: () => Promise<TopContent>,
): Promise<void> {
  const { topLines } = await import("../text/mod.ts");
  const { openScreen } = await import("../../platform/mod.ts");
  const ending = new AbortController();
  signal.addEventListener("abort", () => ending.abort(), { once: true });
  if (signal.aborted) ending.abort();
  let content = first;
  const draw = () => screen.draw(topLines(content, { ...screen.size(), colour: !Deno.noColor }));
  const screen = openScreen(print, {
    onKey(key) {
      if (QUITS.includes(key)) ending.abort();
    },
    onResize: draw,
  });
  try {
    while (!ending.signal.aborted) {
      draw();
      await sleep(clock, EVERY_MS, ending.signal).catch(() => {});
      content = await look().catch((error) => ({ ...content, trouble: `no answer: ${errorText(error)}` }));
    }
  } finally {
    screen.leave();
  }
}
