/** When a family without service ports does without its worker. */
import type { Clock } from "../../platform/mod.ts";
import type { Family, FamilySettings } from "../model/mod.ts";

/** How long a family must have been without service ports, and in sync, before its worker ends; in milliseconds. */
export interface RestDelays {
  /** Where it has had none since this process started. */
  readonly firstMs: number;
  /** Where it has had some: more may follow soon. */
  readonly laterMs: number;
}

/** The delays of a running proxy. */
export const REST_DELAYS: RestDelays = { firstMs: 5_000, laterMs: 300_000 };

/**
 * Whether a family may do without its worker while it has no service ports. One worker must stay, since only a worker can
 * start another: where neither family has service ports, IPv4's. The rule that drops martian packets protects the node
 * without any service, so that it is watched over as long as the kernel may route loopback addresses.
 */
export function mayRest(
  family: Family,
  { mode, localhostNodePorts }: Pick<FamilySettings, "mode" | "localhostNodePorts">,
  otherHasServicePorts: boolean,
): boolean {
  if (family === "IPv6") return true;
  const routesLoopback = mode === "iptables" && localhostNodePorts;
  return otherHasServicePorts && !routesLoopback;
}

/** Tells when a family has been idle for long enough. */
export interface IdleTimer {
  /** Says whether the family is idle now, and whether it has ever had service ports. */
  note(isIdle: boolean, hadServicePorts: boolean): void;
  stop(): void;
}

/**
 * A timer that calls `onRest` once a family was idle for the whole delay, and again after each later delay for as long as
 * that returns false and the family stays idle.
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
