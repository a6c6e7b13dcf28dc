/** Connects to the first endpoint that accepts (after RFC 8305, Happy Eyeballs). */
import type { Socket } from "node:net";
import type { Clock } from "../platform/mod.ts";
import type { RelayLimits } from "./contract.ts";
import type { RelayNetwork } from "./network.ts";

/** Inputs of `dial`. */
export interface DialOptions {
  readonly network: Pick<RelayNetwork, "connectTcp">;
  readonly clock: Clock;
  readonly limits: Pick<RelayLimits, "headStartMs" | "connectMs">;
  /** Called when another endpoint is tried because one refused, failed or did not answer within its head start. */
  readonly onFailover: () => void;
  /** Called with the error of each attempt that failed. */
  readonly onError: (error: unknown) => void;
  /** Called once: with the connection, or with undefined when all endpoints have failed or the time is over. */
  readonly onSettled: (dialed: Dialed | undefined) => void;
}

/** A connection to an endpoint. */
export interface Dialed {
  readonly socket: Socket;
  readonly endpoint: string;
}

/** Attempts of one connection that run at the same time; a further one replaces the oldest. */
const MAX_ATTEMPTS = 4;

/**
 * Connects to the first of `candidates`. Each has a head start before the next is tried as well; if it fails, the next is
 * tried at once. The first that accepts wins, the others are closed. Returns a function that cancels all attempts without
 * a call of `onSettled`.
 */
export function dial(candidates: Iterator<string, void, void>, options: DialOptions): () => void {
  const { network, clock, limits, onFailover, onError, onSettled } = options;
  const attempts = new Set<Socket>();
  let cancelHeadStart = () => {};
  const drop = (socket: Socket) => {
    attempts.delete(socket);
    socket.destroy();
  };
  const cancel = () => {
    cancelHeadStart();
    cancelTimeout();
    attempts.forEach(drop);
  };
  const giveUp = () => {
    cancel();
    onSettled(undefined);
  };
  const attempt = (endpoint: string) => {
    const socket = network.connectTcp(endpoint);
    attempts.add(socket);
    socket.once("connect", () => {
      if (!attempts.delete(socket)) return;
      cancel();
      onSettled({ socket, endpoint });
    });
    // Stays for the life of the socket: an error after the last attempt concerns nobody here.
    socket.on("error", (error) => {
      if (!attempts.delete(socket)) return;
      onError(error);
      tryNext();
    });
  };
  const tryNext = () => {
    cancelHeadStart();
    const next = candidates.next();
    if (next.done) {
      if (attempts.size === 0) giveUp();
      return;
    }
    onFailover();
    if (attempts.size === MAX_ATTEMPTS) drop(attempts.values().next().value!);
    start(next.value);
  };
  const start = (endpoint: string) => {
    attempt(endpoint);
    cancelHeadStart = clock.schedule(limits.headStartMs, tryNext);
  };
  const cancelTimeout = clock.schedule(limits.connectMs, giveUp);
  const first = candidates.next();
  if (first.done) giveUp();
  else start(first.value);
  return cancel;
}
