/** Stops the worker of a family without service ports. */
import type { Clock } from "../../platform/mod.ts";
import type { Family } from "../model/mod.ts";

/** The time that a family must have been without service ports, and in sync, before its worker is stopped; in milliseconds. */
export interface RestDelays {
  /** The delay if it has had none since this process started. */
  readonly firstMs: number;
  /** The delay if it had some before: more may follow soon. */
  readonly laterMs: number;
}

/** The delays of a running proxy. */
export const REST_DELAYS: RestDelays = { firstMs: 5_000, laterMs: 300_000 };

/**
 * Whether a family without service ports may be without a worker. One worker must stay, since only a worker can start
 * another: IPv4's if neither family has service ports. A worker also stays where the kernel may route loopback addresses,
 * to watch over the rule that drops martian packets.
 */
export function mayRest(
  family: Family,
  routesLoopback: boolean,
  otherHasServicePorts: boolean,
): boolean {
  if (family === "IPv6") return true;
  return otherHasServicePorts && !routesLoopback;
}

/** Detects that a family has been idle for long enough. */
export interface IdleTimer {
  /** Records whether the family is idle now, and whether it ever had service ports. */
  note(isIdle: boolean, hadServicePorts: boolean): void;
  stop(): void;
}

/**
 * A timer that calls `onRest` when a family has been idle for the whole delay, and again after each later delay while
 * `onRest` returns false and the family stays idle.
 */
export function createIdleTimer(
  { clock, delays, onRest }: { readonly clock: Clock; readonly delays: RestDelays; readonly onRest: () => boolean },
): IdleTimer {
  let cancel: (() => void) | undefined;
  const stop = () => {
    cancel?.();
    cancel = undefined;
  };
  const wait = (delayMs: number) => {
    cancel = clock.schedule(delayMs, () => {
      cancel = undefined;
      if (!onRest()) wait(delays.laterMs);
    });
  };
  return {
    note(isIdle, hadServicePorts) {
      if (!isIdle) stop();
      else if (cancel === undefined) wait(hadServicePorts ? delays.laterMs : delays.firstMs);
    },
    stop,
  };
}
