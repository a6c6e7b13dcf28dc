import { boolean, option } from "../../config/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { Feed, FeedEvent } from "../../observe/mod.ts";
import { errorText, sleep, writeToStderr } from "../../platform/mod.ts";
import {
  askerOf,
  type Command,
  type Invocation,
  jsonText,
  outputFlags,
  outputOf,
  TIMEOUT_FLAG,
  usageError,
} from "./command.ts";

const OUTPUT = outputFlags(["text", "json"]);
const REFRESH_MS = 250;

/** `sluice events`: what happens on this node, live. */
export const eventsCommand: Command = {
  name: "events",
  summary: "Print changes of services and their effect, repairs and problems, live.",
  arguments: [],
  flags: [option("once", boolean(), "Print the events so far and exit."), TIMEOUT_FLAG, ...OUTPUT.flags],
  installed: { part: "socket" },
  examples: [
    { line: "sluice events", does: "the last events, then new ones until interrupted" },
    { line: "sluice events --once -o json", does: "the events so far, one JSON object per line" },
  ],
  async start(invocation) {
    const { configuration: { controlSocket }, flags, signal } = invocation;
    if (controlSocket === undefined) {
      return usageError("events needs a running proxy: set --control-socket to its socket");
    }
    const { connectToProxy } = await import("../../answers/control/mod.ts");
    const proxy = await connectToProxy(controlSocket, askerOf(invocation));
    const print = await createPrinter(invocation);
    let feed = await proxy.events(0);
    feed.events.forEach(print);
    while (flags.get("once") !== true && !signal.aborted) {
      await sleep(invocation.clock, REFRESH_MS, signal).catch(() => {});
      if (!signal.aborted) feed = await nextOf(feed, proxy, print, invocation);
    }
    return 0;
  },
};

async function createPrinter(invocation: Invocation): Promise<(event: FeedEvent) => void> {
  const { print } = invocation;
  if (outputOf(invocation, OUTPUT) === "json") return (event) => print(jsonText(event, 0));
  const { eventLine, layoutOfOutput } = await import("../text/mod.ts");
  return (event) => print(`${eventLine(event, layoutOfOutput())}\n`);
}

/**
 * Prints the events that are new since a feed. Waits while no proxy answers; a restarted proxy numbers its events from 1 again.
 */
async function nextOf(
  { startedAtMs, last }: Feed,
  proxy: ControlAnswers,
  print: (event: FeedEvent) => void,
  { clock, signal }: Invocation,
): Promise<Feed> {
  let isLost = false;
  while (!signal.aborted) {
    try {
      const next = await proxy.events(last);
      if (isLost) writeToStderr("sluice: the proxy answers again\n");
      const feed = next.startedAtMs === startedAtMs ? next : await proxy.events(0);
      feed.events.forEach(print);
      return feed;
    } catch (error) {
      if (!isLost) writeToStderr(`sluice: ${errorText(error)}; waiting for it\n`);
      isLost = true;
      await sleep(clock, REFRESH_MS, signal).catch(() => {});
    }
  }
  return { startedAtMs, last, events: [] };
}
