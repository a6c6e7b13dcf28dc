import { boolean, option } from "../../config/mod.ts";
import type { FeedEvent } from "../../observe/mod.ts";
import { errorText, sleep, writeToStderr } from "../../platform/mod.ts";
import {
  type Command,
  type Invocation,
  isJson,
  jsonText,
  PROXY_STATUS,
  proxyFor,
  TEXT_OR_JSON,
  TIMEOUT_FLAG,
} from "./command.ts";

const REFRESH_MS = 250;

/** `sluice events`: what happens on this node, live. */
export const eventsCommand: Command = {
  name: "events",
  summary: "Print changes of services and their effect, repairs and problems, live.",
  flags: [option("once", boolean(), "Print the events so far and exit."), TIMEOUT_FLAG, ...TEXT_OR_JSON],
  installed: { part: "socket" },
  exitStatuses: PROXY_STATUS,
  examples: {
    "sluice events": "the last events, then new ones until interrupted",
    "sluice events --once -o json": "the events so far, one JSON object per line",
  },
  streams: true,
  async start(invocation) {
    const { flags, signal, clock } = invocation;
    const proxy = await proxyFor("events", invocation);
    const print = await createPrinter(invocation);
    let feed = await proxy.events(0);
    feed.events.forEach(print);
    let isLost = false;
    while (flags.get("once") !== true && !signal.aborted) {
      await sleep(clock, REFRESH_MS, signal).catch(() => {});
      if (signal.aborted) break;
      try {
        const next = await proxy.events(feed.last);
        if (isLost) writeToStderr("sluice: the proxy answers again\n");
        isLost = false;
        // A restarted proxy numbers its events from 1 again.
        feed = next.startedAtMs === feed.startedAtMs ? next : await proxy.events(0);
      } catch (error) {
        if (!isLost) writeToStderr(`sluice: ${errorText(error)}; waiting for it\n`);
        isLost = true;
        continue;
      }
      feed.events.forEach(print);
    }
    return 0;
  },
};

async function createPrinter(invocation: Invocation): Promise<(event: FeedEvent) => void> {
  const { print } = invocation;
  if (isJson(invocation)) return (event) => print(jsonText(event, 0));
  const { eventLine } = await import("../text/mod.ts");
  return (event) => print(`${eventLine(event)}\n`);
}
