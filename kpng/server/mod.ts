/**
 * The gRPC server of `sluice serve`, which relays one source to any number of nodes.
 *
 *   isolate.ts          the server of one isolate: its socket, the methods of its calls, health checks
 *   context.ts          a server's limits and settings, and the state that its parts in one isolate share
 *   connections.ts      admits connections within the limits, and guards each one
 *   outlet.ts           sends what a client can receive now, within a budget
 *   call.ts             carries out one call: headers, deadline, requests, answers, status
 *   watcher.ts          the method Watch: answers one watcher until it leaves
 *   answers.ts          snapshots and differences, shared by watchers
 *   snapshots.ts        operations in chunks, and snapshots of local states
 *   waiting.ts          waits for a change, for a slot, and for a deadline that is moved often
 *   serving_workers.ts  starts the workers, restarts those that die, and answers their questions
 *   serving_worker.ts   a worker's server, and its messages
 *   metrics.ts          counts in memory that isolates share, and the time to the last watcher
 *
 * In: a store. Out: KPNG's operations to each client. May touch: listening sockets.
 */
import type { ClockAndLogger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { isOfThisHost, wireAddressText } from "../address/mod.ts";
import { createTallyMemory, type Metric, openTally } from "./metrics.ts";
import { type IsolateServer, serveInIsolate } from "./isolate.ts";
import { LIMITS, type Limits, type ServerSettings } from "./context.ts";
import { serveWithWorkers, type SpawnServing } from "./serving_workers.ts";
import { createAnswers } from "./answers.ts";
export { createAnswers } from "./answers.ts";
export type { ClientRule } from "./context.ts";
export { createChangeWaiters, createSemaphore } from "./waiting.ts";
export { type Metric, REASONS } from "./metrics.ts";
export { type FromServingWorker, serveAsWorker, type ToServingWorker } from "./serving_worker.ts";
export { serveWatcher } from "./watcher.ts";

/** Options of `startServing`. */
export interface ServingOptions extends Pick<ServerSettings, "address" | "tls">, ClockAndLogger {
  readonly clients?: ServerSettings["clients"];
  readonly store: Store;
  /** LIMITS by default. */
  readonly limits?: Partial<Limits>;
  /** Takes the time in milliseconds from each change until it was written to the last watcher. */
  readonly onLag?: (lagMs: number) => void;
  /** The workers that write to the watchers; none by default, and none for a unix socket, which has one listener. */
  readonly workers?: { readonly count: number; readonly spawn: SpawnServing };
}

/** A running server. */
export interface Serving extends IsolateServer {
  /** The value of a metric since the start. */
  count(name: Metric): number;
}

/** Starts a server. Throws an Error if it cannot listen on the address. */
export async function startServing(options: ServingOptions): Promise<Serving> {
  const { address, tls, clients, store, clock, logger, onLag } = options;
  const settings = { address, tls, clients, limits: { ...LIMITS, ...options.limits } };
  const { count = 0, spawn } = options.workers ?? {};
  const hasWorkers = spawn !== undefined && count > 0 && address.kind === "tcp";
  const memory = createTallyMemory(hasWorkers ? count : 1);
  const tally = openTally(memory, 0);
  const server = hasWorkers
    ? await serveWithWorkers({ settings, address, store, onLag, memory, spawn, clock, logger })
    : await serveInIsolate({
      ...settings,
      clock,
      logger,
      state: { revisions: store, answers: createAnswers(store, clock) },
      sharesPort: false,
      tally,
      lag: { onLag },
    });
  const bound = wireAddressText(server.address);
  if (tls?.ca === undefined && !isOfThisHost(server.address)) {
    logger.warn(
      "any client that reaches this address can read the cluster's state; set --listen-tls-ca to require certificates",
      { address: bound },
    );
  }
  logger.info("serving gRPC", { address: bound, tls: tls !== undefined });
  return { ...server, count: tally.total };
}
