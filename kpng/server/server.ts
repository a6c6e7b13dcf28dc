/** The gRPC server: serves the global and local state of a store to watchers. */
import type { ServerHttp2Stream } from "node:http2";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { STATUS, type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import { createAnswers } from "./answers.ts";
import { type ClosureReason, createClosedConnections } from "./closed_connections.ts";
import { admitConnections } from "./connections.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { listen } from "./listen.ts";
import { createSemaphore } from "./semaphore.ts";
import { CallError, openStream, scopeOf } from "./stream.ts";
import { createChangeWaiters } from "./change_waiters.ts";
import { serveWatcher } from "./watcher.ts";

/** Options of `startServing`. */
export interface ServingOptions {
  readonly address: WireAddress;
  /** Without it, nothing is encrypted and every client that can connect may watch. */
  readonly tls: TlsFiles | undefined;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** LIMITS by default. */
  readonly limits?: Partial<Limits>;
}

/** A running server. */
export interface Serving {
  /** The bound address, with the actual port. */
  readonly address: WireAddress;
  /** The number of watchers. */
  watchers(): number;
  /** The number of connections, including those without a handshake. */
  connections(): number;
  /** The number of connections closed by the server for that reason. */
  closed(reason: ClosureReason): number;
  /** Ends every call and the server. */
  close(): Promise<void>;
}

/** Starts a server. Throws an Error if it cannot listen on the address. */
export async function startServing(options: ServingOptions): Promise<Serving> {
  const { store, clock, logger } = options;
  const limits = { ...LIMITS, ...options.limits };
  const answers = createAnswers(store, clock);
  const waiters = createChangeWaiters(store, clock);
  const transfers = createSemaphore(limits.transfers);
  const watchers = new Set<AbortController>();
  const closed = createClosedConnections(logger);

  const onStream = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => {
    // A frame that violates the protocol destroys the streams of the same packet before they are emitted, and their errors
    // come after this. Without a listener, they would crash the process.
    stream.on("error", () => {});
    if (stream.destroyed || stream.closed) return;
    const scope = headers[":method"] === "POST" ? scopeOf(String(headers[":path"] ?? "")) : undefined;
    const refusal = scope === undefined
      ? { status: STATUS.unimplemented, message: "only localv1.Sets/Watch and globalv1.Sets/Watch are implemented" }
      : watchers.size >= limits.streams
      ? { status: STATUS.resourceExhausted, message: `limit of ${limits.streams} watchers reached` }
      : undefined;
    if (scope === undefined || refusal !== undefined) return refuse(stream, refusal!);
    const abort = new AbortController();
    watchers.add(abort);
    serve(stream, scope, abort).finally(() => watchers.delete(abort));
  };

  const serve = async (stream: ServerHttp2Stream, scope: "global" | "local", abort: AbortController) => {
    const { signal } = abort;
    try {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => {
        if (!stream.closed && !stream.destroyed) stream.sendTrailers(trailersOf(signal));
      });
      const watcher = openStream(stream, { scope, limits, clock, abort });
      await serveWatcher(watcher, { answers, clock, signal, transfers, changed: waiters.changed });
      stream.end();
    } catch (error) {
      if (!signal.aborted) abort.abort(error);
      logger.debug("watcher disconnected", { scope, reason: errorText(error) });
      // A stalled reader would not read the end of the call either.
      const hasStalled = stream.writableLength > 0;
      if (!stream.destroyed) {
        if (hasStalled) stream.destroy();
        else stream.end();
      }
      if (error instanceof CallError) clock.schedule(limits.idleMs, () => stream.destroy());
    }
  };

  const server = await listen(options.address, options.tls, limits);
  const isSecure = options.tls !== undefined;
  const connections = admitConnections({ server, isSecure, limits, clock, closed });
  server.on("stream", onStream);
  server.on("sessionError", (error) => logger.debug("connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("gRPC server error", { error: errorText(error) }));
  const address = boundAddress(options.address, server.address());
  if (options.tls?.ca === undefined && !isOfThisHost(address)) {
    logger.warn(
      "any client that reaches this address can read the cluster's state; set --listen-tls-ca to require certificates",
      {
        address: wireAddressText(address),
      },
    );
  }
  logger.info("serving gRPC", { address: wireAddressText(address), tls: isSecure });

  return {
    address,
    watchers: () => watchers.size,
    connections: connections.count,
    closed: closed.of,
    close() {
      waiters.close();
      for (const abort of watchers) abort.abort(new CallError(STATUS.unavailable, "the server is shutting down"));
      connections.close();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Whether only this host can connect. */
function isOfThisHost(address: WireAddress): boolean {
  return address.kind === "unix" || /^(127\.|::1$|localhost$)/.test(address.host);
}

function trailersOf({ aborted, reason }: AbortSignal): Record<string, string> {
  if (!aborted) return { "grpc-status": String(STATUS.ok) };
  const { status, message } = reason instanceof CallError
    ? reason
    : { status: STATUS.unavailable, message: "the call was reset" };
  return { "grpc-status": String(status), "grpc-message": encodeURIComponent(message) };
}

function refuse(stream: ServerHttp2Stream, { status, message }: { status: number; message: string }): void {
  stream.respond({
    ":status": 200,
    "content-type": "application/grpc",
    "grpc-status": String(status),
    "grpc-message": encodeURIComponent(message),
  }, { endStream: true });
}

function boundAddress(asked: WireAddress, bound: unknown): WireAddress {
  if (asked.kind === "unix") return asked;
  const port = (bound as { readonly port?: number } | null)?.port;
  return { ...asked, port: port ?? asked.port };
}
