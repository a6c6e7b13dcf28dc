import { type Clock, createBackoff, errorText, joinHostPort, type Logger, retry, splitHostPort } from "../mod.ts";
import type { ConnectionLimits } from "./connection_limits.ts";
import { type HttpHandler, textAnswer } from "./http.ts";
import { type HttpListener, listenHttp, type OpenPort } from "./listen.ts";

/** What every server of this folder is started with. */
export interface ServerOptions {
  /** `address:port`; undefined for no server. */
  readonly bindAddress: string | undefined;
  /** Whether a port that cannot be opened is a reason not to start (kube-proxy's bindAddressHardFail). */
  readonly bindAddressHardFail: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends the server at once. */
  readonly signal: AbortSignal;
  /** Shared with other listeners; limits of its own by default. */
  readonly limits?: ConnectionLimits;
  /** Deno.listen by default. */
  readonly open?: OpenPort;
}

/** A server that listens, or tries to. */
export interface RunningServer {
  /** The `address:port` it listens on, with the port that was given out for port 0; undefined while it does not. */
  address(): string | undefined;
}

/** What is served at each path, whatever the method, as kube-proxy does it. */
export type Routes = Readonly<Record<string, HttpHandler>>;

/** As kube-proxy waits. */
const BETWEEN_TRIES_MS = 5_000;

/** A handler that answers at these paths, and anything else with 404 and `otherwise`. */
export function route(routes: Routes, otherwise: string): HttpHandler {
  const handlers = new Map(Object.entries(routes));
  return (request) => handlers.get(request.path)?.(request) ?? textAnswer(404, otherwise);
}

/**
 * Starts a server named `name` (`metrics`) that runs until the signal. A port that cannot be opened is an error with
 * `bindAddressHardFail`; without, it is logged and tried again every 5 seconds.
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
    logger.info("the server listens");
  };

  const listening = retry(() => Promise.try(listen), {
    backoff: createBackoff({ firstMs: BETWEEN_TRIES_MS, longestMs: BETWEEN_TRIES_MS, jitter: 0 }),
    clock,
    signal,
    tries: bindAddressHardFail ? 1 : undefined,
    onRetry: (error, waitMs) =>
      logger.error("the server cannot listen", { error: errorText(error), nextTry: `in ${waitMs / 1000} s` }),
  });
  if (bindAddressHardFail) {
    await listening.catch((error) => {
      throw new Error(`the ${name} server cannot listen on ${bindAddress}`, { cause: error });
    });
  } else {
    listening.catch((reason) => logger.debug("no longer tried", { reason: errorText(reason) }));
  }
  return {
    address: () => listener === undefined || signal.aborted ? undefined : joinHostPort(address, listener.port),
  };
}
