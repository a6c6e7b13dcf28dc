import type { Clock, Logger } from "../mod.ts";
import { close, type Connection, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
import { answerConnection, type HttpHandler } from "./http.ts";

/** Opens a TCP port, as Deno.listen does. */
export type OpenPort = (options: { readonly hostname: string; readonly port: number }) => Deno.Listener;

/** Options of `listenHttp`. */
export interface ListenOptions {
  /** An address of this host; `0.0.0.0` and `::` both mean all addresses of both families. */
  readonly address: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: HttpHandler;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Limits shared with other listeners; own limits by default. */
  readonly limits?: ConnectionLimits;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
}

/** An HTTP server on an open port. */
export interface HttpListener {
  readonly port: number;
  /** Number of open file descriptors, without connections. */
  readonly descriptors: number;
  /** Stops listening and closes all connections at once. */
  close(): void;
}

/** Size of the kernel's accept queue: in a flood, a probe waits in the queue instead of for a SYN retransmission. */
const BACKLOG = 4096;

function openPort(options: { readonly hostname: string; readonly port: number }): Deno.Listener {
  return Deno.listen({ ...options, tcpBacklog: BACKLOG });
}

/** Opens a port and serves requests until it is closed. Throws the errors of `open`. */
export function listenHttp(options: ListenOptions): HttpListener {
  const { handler, clock, logger, open = openPort, limits = createConnectionLimits({ clock }) } = options;
  const listeners = openAll(options.address, options.port, open);
  const closed = new AbortController();
  const serve = (connection: Connection) => answerConnection(connection, handler, { clock, logger });
  const port = portOf(listeners[0]);
  for (const listener of listeners) {
    limits.accept(listener, { serve, logger: logger.with({ port }), signal: closed.signal });
  }
  return { port, descriptors: listeners.length, close: () => closed.abort() };
}

/**
 * Listens like Go's net.Listen("tcp", …) in kube-proxy: `0.0.0.0` and `::` both mean every address of both families, or of
 * IPv4 alone on a host without IPv6.
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
    // The IPv6 socket accepts IPv4 too, unless the host sets net.ipv6.bindv6only.
    if (error instanceof Deno.errors.AddrInUse) return [both];
    close(both);
    throw error;
  }
}

function portOf(listener: Deno.Listener): number {
  return (listener.addr as Deno.NetAddr).port;
}
