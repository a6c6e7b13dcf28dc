import { type Clock, sleep } from "../../platform/clock.ts";
import { errorText, type Logger } from "../../platform/log.ts";
import { answerConnection, close, type HttpHandler } from "./http.ts";

/** Opens a TCP port, as Deno.listen does. */
export type OpenPort = (options: { readonly hostname: string; readonly port: number }) => Deno.Listener;

/** What listening needs to know. */
export interface ListenOptions {
  /** An address of this host; an unspecified one (`0.0.0.0`, `::`) stands for all addresses of both families. */
  readonly address: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: HttpHandler;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
}

/** An open port whose requests are answered. */
export interface HttpListener {
  readonly port: number;
  /** Stops listening and breaks off every connection, at once. */
  close(): void;
}

const AFTER_FAILED_ACCEPT_MS = 100;

/** Opens a port and answers what is asked there until it is closed. Throws what `open` throws. */
export function listenHttp(options: ListenOptions): HttpListener {
  const { handler, clock, logger, open = Deno.listen } = options;
  const listeners = openAll(options.address, options.port, open);
  const connections = new Set<Deno.Conn>();
  const closed = new AbortController();

  const answer = async (connection: Deno.Conn) => {
    connections.add(connection);
    await answerConnection(connection, handler, { clock, logger });
    connections.delete(connection);
  };

  const accept = async (listener: Deno.Listener) => {
    while (!closed.signal.aborted) {
      try {
        answer(await listener.accept());
      } catch (error) {
        if (closed.signal.aborted) return;
        // The process has too many open files, say; that passes.
        logger.warn("a connection could not be accepted", { port: options.port, error: errorText(error) });
        await sleep(clock, AFTER_FAILED_ACCEPT_MS, closed.signal).catch(() => {});
      }
    }
  };

  for (const listener of listeners) accept(listener);
  return {
    port: portOf(listeners[0]),
    close() {
      closed.abort();
      listeners.forEach(close);
      connections.forEach(close);
    },
  };
}

/**
 * Go's net.Listen("tcp", …), which kube-proxy uses, takes `0.0.0.0` and `::` alike for every address of both families,
 * and makes do with IPv4 on a host without IPv6.
 */
function openAll(address: string, port: number, open: OpenPort): [Deno.Listener, ...Deno.Listener[]] {
  if (address !== "0.0.0.0" && address !== "::") return [open({ hostname: address, port })];
  let both: Deno.Listener;
  try {
    both = open({ hostname: "::", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse || error instanceof Deno.errors.PermissionDenied) throw error;
    return [open({ hostname: "0.0.0.0", port })];
  }
  try {
    return [both, open({ hostname: "0.0.0.0", port: portOf(both) })];
  } catch (error) {
    // The first one takes IPv4 too, unless the host sets net.ipv6.bindv6only.
    if (error instanceof Deno.errors.AddrInUse) return [both];
    close(both);
    throw error;
  }
}

function portOf(listener: Deno.Listener): number {
  return (listener.addr as Deno.NetAddr).port;
}
