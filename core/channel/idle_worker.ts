/** When the worker of a family without service ports is stopped. */
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
