import type { Clock, Logger } from "../mod.ts";
import { close, type Connection, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
import { answerConnection, type HttpHandler } from "./http.ts";

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
  /** Shared with other listeners; limits of its own by default. */
  readonly limits?: ConnectionLimits;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
}

/** An open port whose requests are answered. */
export interface HttpListener {
  readonly port: number;
  /** The descriptors that it holds, connections aside. */
  readonly descriptors: number;
  /** Stops listening and breaks off every connection, at once. */
  close(): void;
}

/** Connections that may wait in the kernel: in a flood, a probe then waits its turn, not for its SYN to be sent again. */
const BACKLOG = 4096;

function openPort(options: { readonly hostname: string; readonly port: number }): Deno.Listener {
  return Deno.listen({ ...options, tcpBacklog: BACKLOG });
}

/** Opens a port and answers what is asked there until it is closed. Throws what `open` throws. */
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
