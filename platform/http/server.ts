import { type Clock, createBackoff, errorText, joinHostPort, type Logger, retry, splitHostPort } from "../mod.ts";
import type { ConnectionLimits } from "./connection_limits.ts";
import { type HttpHandler, textAnswer } from "./http.ts";
import { type HttpListener, listenHttp, type OpenPort } from "./listen.ts";

/** Options of `startServer`. */
export interface ServerOptions {
  /** `address:port`; undefined disables the server. */
  readonly bindAddress: string | undefined;
  /** Whether failing to open the port is fatal (kube-proxy's bindAddressHardFail). */
  readonly bindAddressHardFail: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops the server at once. */
  readonly signal: AbortSignal;
  /** Limits shared with other listeners; own limits by default. */
  readonly limits?: ConnectionLimits;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
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
  return {
    address: () => listener === undefined || signal.aborted ? undefined : joinHostPort(address, listener.port),
  };
}
