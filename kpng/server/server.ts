/** The gRPC server: serves the global and local state of a store to watchers. */
import type { Clock, Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import type { ClosureReason } from "./closed_connections.ts";
import { figuresOf, type ServingFigures, watchersOf } from "./figures.ts";
import { type IsolateServer, serveInIsolate } from "./isolate.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { serveWithWorkers, type SpawnServing } from "./serving_workers.ts";
import { stateOf } from "./state.ts";
import { createTallyMemory, openTally, type Tally } from "./tally.ts";

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
  /** The workers that write to the watchers; none by default, and none for a unix socket, which has one listener. */
  readonly workers?: { readonly count: number; readonly spawn: SpawnServing };
}

/** A running server. */
export interface Serving extends IsolateServer {
  /** The number of watchers. */
  watchers(): number;
  /** The number of connections, including those without a handshake. */
  connections(): number;
  /** The number of connections closed by the server for that reason. */
  closed(reason: ClosureReason): number;
  /** What was sent and refused since the start. */
  figures(): ServingFigures;
}

/** Starts a server. Throws an Error if it cannot listen on the address. */
export async function startServing(options: ServingOptions): Promise<Serving> {
  const { address, tls, clientOrganization, store, clock, logger, onLag } = options;
  const limits = { ...LIMITS, ...options.limits };
  const { count = 0, spawn } = options.workers ?? {};
  const hasWorkers = spawn !== undefined && count > 0 && address.kind === "tcp";
  const memory = createTallyMemory(hasWorkers ? count : 1);
  const tally = openTally(memory, 0);
  const shared = { tls, clientOrganization, limits, clock, logger };
  const server = hasWorkers
    ? await serveWithWorkers({ ...shared, address, store, onLag, memory, count, spawn })
    : await serveInIsolate({
      ...shared,
      address,
      state: stateOf(store, clock),
      sharesPort: false,
      tally,
      lag: { onLag },
    });
  logAddress(server.address, tls, logger);
  return { ...server, ...readings(tally) };
}

function readings(tally: Tally): Omit<Serving, keyof IsolateServer> {
  return {
    watchers: () => watchersOf(tally),
    connections: () => tally.total("connections"),
    closed: (reason) => tally.total(`closed: ${reason}`),
    figures: () => figuresOf(tally),
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
