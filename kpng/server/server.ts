/** The gRPC server: serves the global and local state of a store to watchers. */
import type { Http2SecureServer } from "node:http2";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import { createCalls } from "./calls.ts";
import { type ClosureReason, createClosedConnections } from "./closed_connections.ts";
import { admitConnections } from "./connections.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { listen } from "./listen.ts";
import { createTraffic, type TrafficFigures } from "./traffic.ts";

/** Options of `startServing`. */
export interface ServingOptions {
  readonly address: WireAddress;
  /** Without it, nothing is encrypted and every client that can connect may watch. */
  readonly tls: TlsFiles | undefined;
  /** The organization (O) that a client's certificate must name, besides being of the CA; any if undefined. */
  readonly clientOrganization?: string;
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
  /** Uses other certificates for new connections; whether client certificates are required does not change. */
  renew(tls: TlsFiles): void;
  /**
   * Announces the end with GOAWAY, ends every call with UNAVAILABLE, then the connections; those that do not read after
   * `lingerMs`.
   */
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
  const closed = createClosedConnections(logger);
  const traffic = createTraffic(store, clock, options.onLag);
  const calls = createCalls({ store, limits, clock, logger, traffic });

  const server = await listen(options.address, options.tls, limits);
  const isSecure = options.tls !== undefined;
  const { clientOrganization } = options;
  const connections = admitConnections({ server, isSecure, clientOrganization, limits, clock, closed });
  server.on("stream", (stream, headers) => {
    // A frame that violates the protocol destroys the streams of the same packet before they are emitted, and their errors
    // come after this. Without a listener, they would crash the process.
    stream.on("error", () => {});
    if (!stream.destroyed && !stream.closed) calls.start(stream, headers);
  });
  server.on("sessionError", (error) => logger.debug("connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("gRPC server error", { error: errorText(error) }));
  const address = boundAddress(options.address, server.address());
  logAddress(address, options.tls, logger);

  return {
    address,
    watchers: calls.watchers,
    connections: connections.count,
    closed: closed.of,
    renew: ({ ca, crt: cert, key }) => (server as Http2SecureServer).setSecureContext({ ca, cert, key }),
    figures: () => ({ ...traffic.figures(), connections: connections.count(), closed: closed.all() }),
    async close() {
      traffic.close();
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.close();
      await calls.stop();
      await ended;
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

function boundAddress(asked: WireAddress, bound: unknown): WireAddress {
  if (asked.kind === "unix") return asked;
  const port = (bound as { readonly port?: number } | null)?.port;
  return { ...asked, port: port ?? asked.port };
}
