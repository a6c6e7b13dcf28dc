import { boolean, option } from "../../config/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { TopContent } from "../text/mod.ts";
import { abortedBy, errorText, sleep } from "../../platform/mod.ts";
import { type Command, type Invocation, usageError } from "./command.ts";

const REFRESH_MS = 1000;
const MAX_SERVICES = 50;
const QUIT_KEYS = ["q", "Q", "\x03", "\x04"];

/** `sluice top`: the status page in a terminal. */
export const topCommand: Command = {
  name: "top",
  summary: "Show live status of the running proxy.",
  arguments: [],
  flags: [option("once", boolean(), "Print the status once and exit; the default if the output is not a terminal.")],
  withoutSource: true,
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
    const fetchContent = createFetch(proxy);
    const first = await fetchContent();
    if (flags.get("once") !== true && isInteractive()) {
      await showLive(invocation, first, fetchContent);
      return 0;
    }
    print(topLines(first, PLAIN).map((line) => `${line}\n`).join(""));
    return 0;
  },
};

/** Returns a function that fetches the status, and the services only if they may have changed. */
function createFetch(proxy: ControlAnswers): () => Promise<TopContent> {
  let stamp: string | undefined;
  let attention: ServicePage | undefined;
  return async () => {
    const status = await proxy.status();
    if (status.stamp !== stamp) {
      // The proxy may not have read the cluster yet.
      attention = await proxy.browse({ search: "", attention: true, page: 1, pageSize: MAX_SERVICES })
        .catch(() => undefined);
      stamp = attention && status.stamp;
    }
    return { status, attention, trouble: undefined };
  };
}

async function showLive(
  { clock, print, signal }: Invocation,
  first: TopContent,
  fetchContent: () => Promise<TopContent>,
): Promise<void> {
  const { topLines } = await import("../text/mod.ts");
  const { openScreen } = await import("../../platform/mod.ts");
  const ending = abortedBy(signal);
  let content = first;
  const draw = () => screen.draw(topLines(content, { ...screen.size(), colour: !Deno.noColor }));
  const screen = openScreen(print, {
    onKey(key) {
      if (QUIT_KEYS.includes(key)) ending.abort();
    },
    onResize: draw,
  });
  try {
    while (!ending.signal.aborted) {
      draw();
      await sleep(clock, REFRESH_MS, ending.signal).catch(() => {});
      content = await fetchContent().catch((error) => ({ ...content, trouble: `no answer: ${errorText(error)}` }));
    }
  } finally {
    screen.leave();
  }
}
