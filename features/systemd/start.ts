import type { Node, RunningFeature } from "../contract.ts";
import { notify } from "./calls.ts";

/** The longest time between notifications, which keep the state in words up to date. */
const MAX_INTERVAL_MS = 10_000;
/** The delay before a notification that no worker could send is sent again. */
const RETRY_MS = 1_000;

/** Starts notifying systemd (sd_notify(3)), through a family's worker: the main isolate may not run programs. */
export function start(node: Node): Promise<RunningFeature> {
  const { environment, families, health, headline, clock, logger, signal } = node;
  const socket = environment("NOTIFY_SOCKET") ?? "";
  const intervalMs = intervalOf(environment("WATCHDOG_USEC"));
  let isReadySent = false;
  /** Sends the next notification at once, or after the one that is being sent. */
  let wake = () => {};

  /** Returns whether a worker has sent it. */
  const send = async (): Promise<boolean> => {
    const ready = health.status().inEffect && !isReadySent;
    const status = textOf(await headline());
    for (const { call } of families) {
      if (await call(notify, { socket, status, ready }) === undefined) continue;
      if (ready) logger.debug("service manager notified: ready");
      isReadySent ||= ready;
      return true;
    }
    return false;
  };
  const run = async () => {
    while (!signal.aborted) {
      const woken = Promise.withResolvers<void>();
      wake = woken.resolve;
      const isSent = await send().catch(() => false);
      const cancel = clock.schedule(isSent ? intervalMs : Math.min(intervalMs, RETRY_MS), woken.resolve);
      await woken.promise;
      cancel();
    }
  };
  signal.addEventListener("abort", () => wake(), { once: true });
  let shown = stateOf(node);
  run();
  return Promise.resolve({
    reported() {
      const current = stateOf(node);
      if (current !== shown) wake();
      shown = current;
    },
  });
}

/** Returns a text that differs when systemd must be notified at once. */
function stateOf({ health }: Node): string {
  const { healthy, inEffect, failure } = health.status();
  return [healthy, inEffect, failure === undefined].join(" ");
}

/** The interval of notifications in milliseconds: a third of the watchdog's time, in microseconds (sd_watchdog_enabled(3)). */
function intervalOf(watchdog: string | undefined): number {
  const watchdogMs = Number(watchdog) / 1000;
  return watchdogMs > 0 ? Math.min(watchdogMs / 3, MAX_INTERVAL_MS) : MAX_INTERVAL_MS;
}

const MAX_CHARACTERS = 200;

/** Returns a text without line breaks, which would begin other fields of the notification. */
function textOf(text: string): string {
  const line = text.replaceAll(/\p{Cc}+/gu, " ");
  return line.length > MAX_CHARACTERS ? `${line.slice(0, MAX_CHARACTERS - 1)}…` : line;
}
