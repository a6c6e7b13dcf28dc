/** The gRPC server: the state of a store, global and local, for as many watchers as there are nodes. */
import type { ServerHttp2Stream } from "node:http2";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { STATUS, type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import { createAnswers } from "./answers.ts";
import { type ClosureReason, createClosures } from "./closures.ts";
import { admitConnections } from "./connections.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { listen } from "./listen.ts";
import { createPlaces } from "./places.ts";
import { CallError, openStream, scopeOf } from "./stream.ts";
import { createWakeups } from "./wakeups.ts";
import { serveWatcher } from "./watcher.ts";

/** What a server needs. */
export interface ServingOptions {
  readonly address: WireAddress;
  /** Without it, nothing is encrypted and everybody who can connect may watch. */
  readonly tls: TlsFiles | undefined;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** LIMITS by default. */
  readonly limits?: Partial<Limits>;
}

/** A running server. */
export interface Serving {
  /** Where it listens, with the port that it got where 0 was asked for. */
  readonly address: WireAddress;
  /** How many watchers there are. */
  watchers(): number;
  /** How many connections there are, those without a handshake among them. */
  connections(): number;
  /** How many connections were closed from here for that reason. */
  closed(reason: ClosureReason): number;
  /** Ends every call and the server. */
  close(): Promise<void>;
}

/** Starts a server. Throws an Error that says why where it cannot listen at the address. */
export async function startServing(options: ServingOptions): Promise<Serving> {
  const { store, clock, logger } = options;
  const limits = { ...LIMITS, ...options.limits };
  const answers = createAnswers(store, clock);
  const wakeups = createWakeups(store, clock);
  const places = createPlaces(limits.transfers);
  const watchers = new Set<AbortController>();
  const closures = createClosures(logger);

  const onStream = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => {
    // First of all: a frame that breaks the protocol destroys the streams that came in the same packet before they are
    // handed out, and their errors are emitted after this. Without a listener, one of them would end the process.
    stream.on("error", () => {});
    if (stream.destroyed || stream.closed) return;
    const scope = headers[":method"] === "POST" ? scopeOf(String(headers[":path"] ?? "")) : undefined;
    const refusal = scope === undefined
      ? { status: STATUS.unimplemented, message: "there are only localv1.Sets/Watch and globalv1.Sets/Watch" }
      : watchers.size >= limits.streams
      ? { status: STATUS.resourceExhausted, message: `there are ${limits.streams} watchers already` }
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
      await serveWatcher(watcher, { answers, clock, signal, places, changed: wakeups.changed });
      stream.end();
    } catch (error) {
      if (!signal.aborted) abort.abort(error);
      logger.debug("a watcher is gone", { scope, reason: errorText(error) });
      // Who takes nothing would not take the end of the call either.
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
  const connections = admitConnections({ server, isSecure, limits, clock, closures });
  server.on("stream", onStream);
  server.on("sessionError", (error) => logger.debug("a connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("the gRPC server has a problem", { error: errorText(error) }));
  const address = boundAddress(options.address, server.address());
  if (options.tls?.ca === undefined && !isOfThisHost(address)) {
    logger.warn(
      "everybody who reaches this address can read the cluster's state: --listen-tls-ca asks for certificates",
      {
        address: wireAddressText(address),
      },
    );
  }
  logger.info("gRPC is served", { address: wireAddressText(address), tls: isSecure });

  return {
    address,
    watchers: () => watchers.size,
    connections: connections.count,
    closed: closures.of,
    close() {
      wakeups.close();
      for (const abort of watchers) abort.abort(new CallError(STATUS.unavailable, "the server ends"));
      connections.close();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Whether nobody but this host can connect. */
function isOfThisHost(address: WireAddress): boolean {
  return address.kind === "unix" || /^(127\.|::1$|localhost$)/.test(address.host);
}

function trailersOf({ aborted, reason }: AbortSignal): Record<string, string> {
  if (!aborted) return { "grpc-status": String(STATUS.ok) };
  const { status, message } = reason instanceof CallError
    ? reason
    : { status: STATUS.unavailable, message: "the call was broken off" };
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
