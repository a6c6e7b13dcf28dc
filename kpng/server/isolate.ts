/** The gRPC server of one isolate. */
import type { Http2SecureServer } from "node:http2";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { TlsFiles, WireAddress } from "../transport/mod.ts";
import { createCalls } from "./calls.ts";
import { createClosedConnections } from "./closed_connections.ts";
import { admitConnections } from "./connections.ts";
import type { LagOptions } from "./lag.ts";
import type { Limits } from "./limits.ts";
import { listen } from "./listen.ts";
import type { ServedState } from "./state.ts";
import type { Tally } from "./tally.ts";
import { createTraffic } from "./traffic.ts";

/** Options of `serveInIsolate`. */
export interface IsolateOptions {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  /** The organization that a client's certificate must name; any if undefined. */
  readonly clientOrganization: string | undefined;
  /** Whether other isolates listen on the same address, among which the kernel distributes the connections. */
  readonly sharesPort: boolean;
  readonly state: ServedState;
  readonly limits: Limits;
  readonly tally: Tally;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lag: Omit<LagOptions, "clock">;
}

/** The server of one isolate. */
export interface IsolateServer {
  /** The bound address, with the actual port. */
  readonly address: WireAddress;
  /** Uses other certificates for new connections; whether client certificates are required does not change. */
  renew(tls: TlsFiles): void;
  /**
   * Announces the end with GOAWAY, ends every call with UNAVAILABLE, then the connections; those that do not read after
   * `lingerMs`.
   */
  close(): Promise<void>;
}

/** Starts a server. Throws an Error if it cannot listen on the address. */
export async function serveInIsolate(options: IsolateOptions): Promise<IsolateServer> {
  const { clientOrganization, state, limits, tally, clock, logger, lag } = options;
  const closed = createClosedConnections(logger, tally);
  const traffic = createTraffic(state.revisions, tally, { clock, ...lag });
  const calls = createCalls({ state, limits, clock, logger, traffic, tally });

  const server = await listen(options.address, options.tls, limits, options.sharesPort);
  const isSecure = options.tls !== undefined;
  const connections = admitConnections({ server, isSecure, clientOrganization, limits, clock, closed, tally });
  server.on("stream", (stream, headers) => {
    // A frame that violates the protocol destroys the streams of the same packet before they are emitted, and their errors
    // come after this. Without a listener, they would crash the process.
    stream.on("error", () => {});
    if (!stream.destroyed && !stream.closed) calls.start(stream, headers);
  });
  server.on("sessionError", (error) => logger.debug("connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("gRPC server error", { error: errorText(error) }));

  return {
    address: boundAddress(options.address, server.address()),
    renew: ({ ca, crt: cert, key }) => (server as Http2SecureServer).setSecureContext({ ca, cert, key }),
    async close() {
      traffic.close();
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.close();
      await calls.stop();
      await ended;
    },
  };
}

function boundAddress(asked: WireAddress, bound: unknown): WireAddress {
  if (asked.kind === "unix") return asked;
  const port = (bound as { readonly port?: number } | null)?.port;
  return { ...asked, port: port ?? asked.port };
}
