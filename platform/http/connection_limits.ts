/**
 * Limits on inbound connections: how many may be open, how long one may be idle, and how fast new ones are accepted. They
 * wrap the accept loop and apply to any protocol. node/proxy_options.ts derives the total from the limit of open files that
 * backends/host/process_limits.ts reads.
 */
import { type Clock, errorText, type Logger, sleep } from "../mod.ts";

/** The part of Deno.Conn that a handler uses. */
export type Connection = Pick<Deno.Conn, "read" | "write" | "closeWrite" | "close" | "remoteAddr" | "localAddr">;

/** Connection limits, shared by the listeners that use them. */
export interface ConnectionLimits {
  /**
   * Accepts connections until `signal` is aborted and passes each to `serve`, which must not reject. The abort closes all
   * connections at once. A connection is closed when `serve` returns, when its peer neither sends nor receives for 5
   * seconds, or when it has waited longest for its peer and a new connection needs the slot.
   */
  accept(listener: Deno.Listener, options: AcceptOptions): Promise<void>;
  open(): number;
  /** Resolves once no listener accepts any more, and the port of each is free. */
  ended(): Promise<void>;
}

interface AcceptOptions {
  readonly serve: (connection: Connection) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const MAX_CONNECTIONS = 256;
const MAX_PER_LISTENER = 64;
const IDLE_TIMEOUT_MS = 5_000;
/**
 * Accept rate: 16 connections per 20 ms, 800 a second; the rest wait in the kernel's backlog. At twice the rate, a flood of
 * clients that reconnect at once fills a conntrack table of 131,072 entries.
 */
const BURST = 16, BURST_MS = 20;
const ACCEPT_RETRY_MS = 100;

interface OpenConnection {
  readonly listener: Deno.Listener;
  readonly connection: Deno.Conn;
}

/** Creates limits with no open connections. */
export function createConnectionLimits(
  { clock, max = MAX_CONNECTIONS, maxPerListener = MAX_PER_LISTENER }: {
    readonly clock: Clock;
    /** Maximum connections over all listeners; 256 by default. */
    readonly max?: number;
    /** Maximum connections per listener; 64 by default. */
    readonly maxPerListener?: number;
  },
): ConnectionLimits {
  const { open, waiting, end, reserve } = createSlots(max, maxPerListener);
  const acceptDelay = createAcceptPace(clock);

  /** Runs a read or write; closes the connection if it takes longer than the idle timeout. */
  const withIdleTimeout = async <T>(one: OpenConnection, operation: () => Promise<T>): Promise<T> => {
    waiting.add(one);
    const cancel = clock.schedule(IDLE_TIMEOUT_MS, () => end(one));
    try {
      return await operation();
    } finally {
      cancel();
      waiting.delete(one);
    }
  };

  const limited = (one: OpenConnection): Connection => {
    const { connection } = one;
    return {
      read: (into) => withIdleTimeout(one, () => connection.read(into)),
      write: (bytes) => withIdleTimeout(one, () => connection.write(bytes)),
      closeWrite: () => connection.closeWrite(),
      close: () => end(one),
      remoteAddr: connection.remoteAddr,
      localAddr: connection.localAddr,
    };
  };

  const serveConnection = async (listener: Deno.Listener, connection: Deno.Conn, serve: AcceptOptions["serve"]) => {
    if (!reserve(listener)) return close(connection);
    const one: OpenConnection = { listener, connection };
    open.add(one);
    await serve(limited(one));
    end(one);
  };

  const accept: ConnectionLimits["accept"] = async (listener, { serve, logger, signal }) => {
    const closeAll = () => {
      close(listener);
      for (const one of open) if (one.listener === listener) end(one);
    };
    if (signal.aborted) return closeAll();
    signal.addEventListener("abort", closeAll, { once: true });
    while (!signal.aborted) {
      try {
        serveConnection(listener, await listener.accept(), serve);
        const delayMs = acceptDelay();
        if (delayMs > 0) await sleep(clock, delayMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        // Possibly too many open files, which is temporary.
        logger.warn("connection not accepted, retrying", { error: errorText(error) });
        await sleep(clock, ACCEPT_RETRY_MS, signal).catch(() => {});
      }
    }
  };

  const accepting = new Set<Promise<void>>();
  return {
    async accept(listener, options) {
      const accepted = accept(listener, options);
      accepting.add(accepted);
      await accepted;
      accepting.delete(accepted);
    },
    open: () => open.size,
    async ended() {
      await Promise.all(accepting);
    },
  };
}

/** Creates a function that counts an accepted connection and returns the delay in milliseconds before the next accept. */
function createAcceptPace(clock: Clock): () => number {
  let burstEndsAtMs = 0, accepted = 0;
  return () => {
    const nowMs = clock.monotonic();
    if (nowMs >= burstEndsAtMs) {
      burstEndsAtMs = nowMs + BURST_MS;
      accepted = 0;
    }
    return ++accepted < BURST ? 0 : burstEndsAtMs - nowMs;
  };
}

/** Creates the slots that open connections take, over all listeners and per listener. */
function createSlots(max: number, maxPerListener: number) {
  const open = new Set<OpenConnection>();
  /** Connections waiting for their peer, the longest first. The others are being served and cannot be evicted. */
  const waiting = new Set<OpenConnection>();

  const end = (one: OpenConnection) => {
    open.delete(one);
    waiting.delete(one);
    close(one.connection);
  };

  const countOf = (listener: Deno.Listener) => {
    let count = 0;
    for (const one of open) if (one.listener === listener) count++;
    return count;
  };

  /** Closes the longest-waiting connection, of one listener or of all. Returns false if none is waiting. */
  const evict = (listener?: Deno.Listener): boolean => {
    for (const one of waiting) {
      if (listener !== undefined && one.listener !== listener) continue;
      end(one);
      return true;
    }
    return false;
  };

  /** Makes room for a connection of a listener, by eviction if needed. Returns false if there is none. */
  const reserve = (listener: Deno.Listener): boolean => {
    if (countOf(listener) >= maxPerListener) return evict(listener);
    return open.size < max || evict(listener) || evict();
  };

  return { open, waiting, end, reserve };
}

/** Closes a resource that may already be closed. */
export function close(closable: { close(): void }): void {
  try {
    closable.close();
  } catch {
    // Already closed by a timeout, a shutdown or the peer.
  }
}
