import { type ClockAndLogger, createBackoff, errorText, joinHostPort, retry, splitHostPort } from "../mod.ts";
import { close, type Connection, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
import { answerConnection, type HttpHandler, textAnswer } from "./http.ts";

/** Opens a TCP port, as Deno.listen does. */
export type OpenPort = (options: { readonly hostname: string; readonly port: number }) => Deno.Listener;

/** Options of `listenHttp`. */
interface ListenOptions extends ClockAndLogger {
  /** An address of this host; `0.0.0.0` and `::` both mean all addresses of both families. */
  readonly address: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: HttpHandler;
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

/** Options of `startServer`. */
export interface ServerOptions extends Pick<ListenOptions, "clock" | "logger" | "limits" | "open"> {
  /** `address:port`; undefined disables the server. */
  readonly bindAddress: string | undefined;
  /** Whether failing to open the port is fatal (kube-proxy's bindAddressHardFail). */
  readonly bindAddressHardFail: boolean;
  readonly signal: AbortSignal;
  /** Takes the error of each failed try to listen, and undefined once the server listens. */
  readonly onTry?: (error: unknown) => void;
}

/** A server that listens or is retrying to. */
export interface RunningServer {
  /** Returns the `address:port` it listens on, with the assigned port for port 0; undefined while it does not listen. */
  address(): string | undefined;
}

/** Handlers by path, for any method, like kube-proxy. */
export type Routes = Readonly<Record<string, HttpHandler>>;

/** kube-proxy's retry interval. */
const RETRY_MS = 5_000;

/** Returns a handler for these routes that answers other paths with 404 and the text `otherwise`. */
export function route(routes: Routes, otherwise: string): HttpHandler {
  const handlers = new Map(Object.entries(routes));
  return (request) => handlers.get(request.path)?.(request) ?? textAnswer(404, otherwise);
}

/**
 * Starts a server that runs until the signal is aborted; `name` (`metrics`) is for the log. If the port cannot be opened,
 * throws with `bindAddressHardFail`, otherwise logs an error and retries every 5 seconds.
 */
export async function startServer(name: string, handler: HttpHandler, options: ServerOptions): Promise<RunningServer> {
  const { bindAddress, bindAddressHardFail, clock, signal, limits, open } = options;
  if (bindAddress === undefined || signal.aborted) return { address: () => undefined };
  const logger = options.logger.with({ server: name, address: bindAddress });
  const { address, port } = splitHostPort(bindAddress);
  let listener: HttpListener | undefined;

  const listen = () => {
    listener = listenHttp({ address, port, handler, clock, logger, limits, open });
    signal.addEventListener("abort", listener.close, { once: true });
    options.onTry?.(undefined);
    logger.info("server listening");
    logger.solved();
  };

  const listening = retry(() => Promise.try(listen), {
    backoff: createBackoff({ firstMs: RETRY_MS, longestMs: RETRY_MS, jitter: 0 }),
    clock,
    signal,
    tries: bindAddressHardFail ? 1 : undefined,
    onRetry(error, waitMs) {
      options.onTry?.(error);
      logger.error("cannot listen, retrying", { error: errorText(error), retryIn: `${waitMs / 1000} s` });
    },
  });
  if (bindAddressHardFail) {
    await listening.catch((error) => {
      throw new Error(`the ${name} server cannot listen on ${bindAddress}`, { cause: error });
    });
  } else {
    listening.catch((reason) => logger.debug("listening abandoned", { reason: errorText(reason) }));
  }
  return { address: () => listener === undefined || signal.aborted ? undefined : joinHostPort(address, listener.port) };
}
