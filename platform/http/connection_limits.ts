/**
 * Limits on what peers can take of this process: how many connections at once, how long one may say nothing, and how fast
 * new ones are taken. They hold around the accept loop, whatever answers the connections.
 */
import { type Clock, errorText, type Logger, sleep } from "../mod.ts";

/** The part of a connection that answering it needs. */
export type Connection = Pick<Deno.Conn, "read" | "write" | "closeWrite" | "close" | "remoteAddr" | "localAddr">;

/** Limits shared by all listeners that are given them. */
export interface ConnectionLimits {
  /**
   * Accepts connections until `signal`, and has each answered by `serve`, which never rejects. The signal breaks off every
   * connection at once. A connection is closed when `serve` ends, when its peer neither sends nor takes anything for 5
   * seconds, or when it is the one that has waited longest for its peer and another needs its place.
   */
  accept(listener: Deno.Listener, options: AcceptOptions): Promise<void>;
  /** The connections that are open now. */
  open(): number;
}

/** One listener's part of `accept`. */
export interface AcceptOptions {
  readonly serve: (connection: Connection) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Sizes of the limits; every one has a default. */
export interface ConnectionLimitsOptions {
  readonly clock: Clock;
  /** Connections of all listeners together; 256 by default. */
  readonly most?: number;
  /** Connections of one listener; 64 by default. */
  readonly mostPerListener?: number;
}

const MOST = 256;
const MOST_PER_LISTENER = 64;
const LONGEST_SILENCE_MS = 5_000;
/**
 * At most so many connections are accepted in so many milliseconds, 800 a second: the rest wait in the kernel. Twice that, and
 * a flood of connections that come back as soon as they are closed fills a connection tracking table of 131,072.
 */
const BURST = 16, BURST_MS = 20;
const AFTER_FAILED_ACCEPT_MS = 100;

interface Open {
  readonly listener: Deno.Listener;
  readonly connection: Deno.Conn;
}

/** Limits that nobody uses yet. */
export function createConnectionLimits(options: ConnectionLimitsOptions): ConnectionLimits {
  const { clock, most = MOST, mostPerListener = MOST_PER_LISTENER } = options;
  const open = new Set<Open>();
  /** Those that wait for their peer, the longest first. The others are being answered, and nobody takes their place. */
  const waiting = new Set<Open>();
  let burstEndsAtMs = 0, accepted = 0;

  const end = (one: Open) => {
    open.delete(one);
    waiting.delete(one);
    close(one.connection);
  };

  const countOf = (listener: Deno.Listener) => {
    let count = 0;
    for (const one of open) if (one.listener === listener) count++;
    return count;
  };

  /** Ends the connection that has waited longest, of one listener or of all; returns whether there was one. */
  const makePlace = (listener?: Deno.Listener): boolean => {
    for (const one of waiting) {
      if (listener !== undefined && one.listener !== listener) continue;
      end(one);
      return true;
    }
    return false;
  };

  const hasPlace = (listener: Deno.Listener): boolean => {
    if (countOf(listener) >= mostPerListener) return makePlace(listener);
    return open.size < most || makePlace(listener) || makePlace();
  };

  /** Waits for the peer of `one`, for as long as it may be silent. */
  const bounded = async <T>(one: Open, operation: () => Promise<T>): Promise<T> => {
    waiting.add(one);
    const cancel = clock.schedule(LONGEST_SILENCE_MS, () => end(one));
    try {
      return await operation();
    } finally {
      cancel();
      waiting.delete(one);
    }
  };

  const limited = (one: Open): Connection => {
    const { connection } = one;
    return {
      read: (into) => bounded(one, () => connection.read(into)),
      write: (bytes) => bounded(one, () => connection.write(bytes)),
      closeWrite: () => connection.closeWrite(),
      close: () => end(one),
      remoteAddr: connection.remoteAddr,
      localAddr: connection.localAddr,
    };
  };

  /** Returns how long to wait before the next connection is accepted. */
  const pause = (): number => {
    const nowMs = clock.monotonic();
    if (nowMs >= burstEndsAtMs) {
      burstEndsAtMs = nowMs + BURST_MS;
      accepted = 0;
    }
    return ++accepted < BURST ? 0 : burstEndsAtMs - nowMs;
  };

  const take = async (listener: Deno.Listener, connection: Deno.Conn, serve: AcceptOptions["serve"]) => {
    if (!hasPlace(listener)) return close(connection);
    const one: Open = { listener, connection };
    open.add(one);
    await serve(limited(one));
    end(one);
  };

  return {
    async accept(listener, { serve, logger, signal }) {
      const breakOff = () => {
        close(listener);
        for (const one of open) if (one.listener === listener) end(one);
      };
      if (signal.aborted) return breakOff();
      signal.addEventListener("abort", breakOff, { once: true });
      while (!signal.aborted) {
        try {
          take(listener, await listener.accept(), serve);
          const pauseMs = pause();
          if (pauseMs > 0) await sleep(clock, pauseMs, signal);
        } catch (error) {
          if (signal.aborted) return;
          // The process has too many open files, say; that passes.
          logger.warn("connection not accepted, retrying", { error: errorText(error) });
          await sleep(clock, AFTER_FAILED_ACCEPT_MS, signal).catch(() => {});
        }
      }
    },
    open: () => open.size,
  };
}

/** Closes what may be closed already. */
export function close(closable: { close(): void }): void {
  try {
    closable.close();
  } catch {
    // It was closed by its deadline, by a shutdown or by the other side.
  }
}
