/** The gRPC server: serves the global and local state of a store to watchers. */
import type { ServerHttp2Stream } from "node:http2";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { encodeStatusMessage, STATUS, type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import { createAnswers } from "./answers.ts";
import { type ClosureReason, createClosedConnections } from "./closed_connections.ts";
import { admitConnections } from "./connections.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { listen } from "./listen.ts";
import { createSemaphore } from "./semaphore.ts";
import { CallError, openStream, scopeOf } from "./stream.ts";
import { createChangeWaiters } from "./change_waiters.ts";
import { counted, createTraffic, type TrafficFigures } from "./traffic.ts";
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
  /** Takes the time in milliseconds from each change until it was written to the last watcher. */
  readonly onLag?: (lagMs: number) => void;
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
  /** What was sent and refused since the start. */
  figures(): ServingFigures;
  /** Ends every call and the server. */
  close(): Promise<void>;
}

/** The figures of a server, for metrics. */
export interface ServingFigures extends TrafficFigures {
  /** The current connections, including those without a handshake. */
  readonly connections: number;
  /** Connections closed by the server, by reason. */
  readonly closed: ReadonlyMap<ClosureReason, number>;
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
  const traffic = createTraffic(store, clock, options.onLag);

  const onStream = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => {
    // A frame that violates the protocol destroys the streams of the same packet before they are emitted, and their errors
    // come after this. Without a listener, they would crash the process.
    stream.on("error", () => {});
    if (stream.destroyed || stream.closed) return;
    const scope = headers[":method"] === "POST" ? scopeOf(String(headers[":path"] ?? "")) : undefined;
    if (scope === undefined) {
      return refuse(stream, STATUS.unimplemented, "only localv1.Sets/Watch and globalv1.Sets/Watch are implemented");
    }
    if (watchers.size >= limits.streams) {
      traffic.refusedWatcher();
      return refuse(stream, STATUS.resourceExhausted, `limit of ${limits.streams} watchers reached`);
    }
    const abort = new AbortController();
    watchers.add(abort);
    serve(stream, scope, abort).finally(() => watchers.delete(abort));
  };

  const serve = async (stream: ServerHttp2Stream, scope: "global" | "local", abort: AbortController) => {
    const { signal } = abort;
    const own = traffic.join(scope);
    try {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => {
        if (!stream.closed && !stream.destroyed) stream.sendTrailers(trailersOf(signal));
      });
      const watcher = openStream(stream, { scope, limits, clock, onStall: own.stalled, abort });
      await serveWatcher(counted(watcher, own), {
        answers,
        clock,
        signal,
        transfers,
        changed: waiters.changed,
        traffic: own,
      });
      stream.end();
    } catch (error) {
      if (!signal.aborted) abort.abort(error);
      logger.debug("watcher disconnected", { scope, reason: errorText(error) });
      endStream(stream);
      if (error instanceof CallError) clock.schedule(limits.idleMs, () => stream.destroy());
    } finally {
      own.leave();
    }
  };

  const server = await listen(options.address, options.tls, limits);
  const isSecure = options.tls !== undefined;
  const connections = admitConnections({ server, isSecure, limits, clock, closed });
  server.on("stream", onStream);
  server.on("sessionError", (error) => logger.debug("connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("gRPC server error", { error: errorText(error) }));
  const address = boundAddress(options.address, server.address());
  logAddress(address, options.tls, logger);

  return {
    address,
    watchers: () => watchers.size,
    connections: connections.count,
    closed: closed.of,
    figures: () => ({ ...traffic.figures(), connections: connections.count(), closed: closed.all() }),
    close() {
      waiters.close();
      traffic.close();
      for (const abort of watchers) abort.abort(new CallError(STATUS.unavailable, "the server is shutting down"));
      connections.close();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function logAddress(bound: WireAddress, tls: TlsFiles | undefined, logger: Logger): void {
  const address = wireAddressText(bound);
  if (tls?.ca === undefined && !isOfThisHost(bound)) {
    logger.warn(
      "any client that reaches this address can read the cluster's state; set --listen-tls-ca to require certificates",
      { address },
    );
  }
  logger.info("serving gRPC", { address, tls: tls !== undefined });
}

/** Whether only this host can connect. */
function isOfThisHost(address: WireAddress): boolean {
  return address.kind === "unix" || /^(127\.|::1$|localhost$)/.test(address.host);
}

/** Ends a stream after an error. A stalled reader would not read the end of the call either. */
function endStream(stream: ServerHttp2Stream): void {
  if (stream.destroyed) return;
  if (stream.writableLength > 0) stream.destroy();
  else stream.end();
}

function trailersOf({ aborted, reason }: AbortSignal): Record<string, string> {
  if (!aborted) return { "grpc-status": String(STATUS.ok) };
  const { status, message } = reason instanceof CallError
    ? reason
    : { status: STATUS.unavailable, message: "the call was reset" };
  return { "grpc-status": String(status), "grpc-message": encodeStatusMessage(message) };
}

function refuse(stream: ServerHttp2Stream, status: number, message: string): void {
  stream.respond({
    ":status": 200,
    "content-type": "application/grpc",
    "grpc-status": String(status),
    "grpc-message": encodeStatusMessage(message),
  }, { endStream: true });
}

function boundAddress(asked: WireAddress, bound: unknown): WireAddress {
  if (asked.kind === "unix") return asked;
  const port = (bound as { readonly port?: number } | null)?.port;
  return { ...asked, port: port ?? asked.port };
}
