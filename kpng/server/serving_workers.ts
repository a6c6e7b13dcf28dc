/** The main isolate's side: workers that accept connections on one port and write to their watchers. */
import { type Clock, createBackoff, type Logger } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import type { TlsFiles } from "../transport/mod.ts";
import { createAnswerService, createSharedParts, type SharedParts } from "./answer_service.ts";
import { createAnswers, type StoreAnswers } from "./answers.ts";
import type { IsolateServer } from "./isolate.ts";
import { createLag, type Lag } from "./lag.ts";
import type { Limits } from "./limits.ts";
import { freeAddress, type TcpAddress } from "./listen.ts";
import { clearGauges, type TallyMemory } from "./tally.ts";
import type { FromServingWorker, ServingStart, ToServingWorker } from "./worker_protocol.ts";

/** Receives the messages and the failure of a worker. */
export interface ServingWorkerListener {
  onMessage(message: FromServingWorker): void;
  /** The worker has died or hangs; called once. */
  onFailure(reason: string): void;
}

/** A running worker. */
export interface ServingWorkerHandle {
  post(message: ToServingWorker): void;
  terminate(): void;
}

/** Starts a worker with its first message; undefined if that failed, which the listener learns. */
export type SpawnServing = (start: ServingStart, listener: ServingWorkerListener) => ServingWorkerHandle | undefined;

/** Options of `serveWithWorkers`. */
export interface WorkersOptions {
  readonly address: TcpAddress;
  readonly tls: TlsFiles | undefined;
  readonly clientOrganization: string | undefined;
  readonly store: Store;
  readonly limits: Limits;
  readonly memory: TallyMemory;
  readonly count: number;
  readonly spawn: SpawnServing;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onLag?: (lagMs: number) => void;
}

/** What the workers have in common. */
interface Shared extends Omit<WorkersOptions, "address" | "onLag"> {
  readonly address: TcpAddress;
  readonly answers: StoreAnswers;
  readonly idOf: SharedParts;
  readonly lag: Lag;
  /** The current certificates. */
  readonly tlsNow: () => TlsFiles | undefined;
}

/** One of the workers, restarted whenever it fails. */
interface ServingWorker {
  /** Resolves when the first worker listens; rejects if it cannot. */
  readonly listening: Promise<void>;
  post(message: ToServingWorker): void;
  /** Lets it announce its end, then ends it. */
  close(): Promise<void>;
  terminate(): void;
}

/** Starts the workers. Throws an Error if they cannot listen on the address. */
export async function serveWithWorkers(options: WorkersOptions): Promise<IsolateServer> {
  const { store, clock, count, onLag } = options;
  const address = await freeAddress(options.address);
  const lag = createLag({ clock, onLag });
  let { tls } = options;
  const shared: Shared = {
    ...options,
    address,
    // Each holds its share of the large answers in transfer.
    limits: { ...options.limits, transfers: Math.ceil(options.limits.transfers / count) },
    answers: createAnswers(store, clock),
    idOf: createSharedParts(),
    lag,
    tlsNow: () => tls,
  };
  const workers = Array.from({ length: count }, (_, row) => startServingWorker(row, shared));
  const unsubscribe = store.subscribe(() => {
    const revision = store.revision();
    lag.changed(revision);
    for (const { post } of workers) post({ type: "revision", revision });
  });
  try {
    await Promise.all(workers.map(({ listening }) => listening));
  } catch (error) {
    unsubscribe();
    for (const { terminate } of workers) terminate();
    throw error;
  }
  return {
    address,
    renew(renewed) {
      tls = renewed;
      for (const { post } of workers) post({ type: "renew", tls: renewed });
    },
    async close() {
      unsubscribe();
      await Promise.all(workers.map(({ close }) => close()));
    },
  };
}

/** Starts the worker of a row, and others after it. */
function startServingWorker(row: number, shared: Shared): ServingWorker {
  const { spawn, store, clock, logger, memory, lag, answers, idOf, address, clientOrganization, limits } = shared;
  const backoff = createBackoff({ firstMs: 100, longestMs: 30_000 });
  const listening = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  let worker: ServingWorkerHandle | undefined;
  let hasListened = false;
  let isClosing = false;
  let restarts = 0;
  let cancelRestart = () => {};

  const end = () => {
    cancelRestart();
    worker?.terminate();
    worker = undefined;
    clearGauges(memory, row);
    closed.resolve();
  };

  const launch = () => {
    const received = lag.join();
    if (store.ready()) received.skip(store.revision());
    const service = createAnswerService({ answers, idOf, clock, post: (message) => handle?.post(message) });
    const onMessage = (message: FromServingWorker) => {
      switch (message.type) {
        case "listening":
          hasListened = true;
          backoff.reset();
          listening.resolve();
          break;
        case "failed":
          handle?.terminate();
          onFailure(message.reason);
          break;
        case "ask":
          void service.ask(message);
          break;
        case "next":
          service.next(message);
          break;
        case "release":
          service.release(message.rest);
          break;
        case "received":
          (message.wasWritten ? received.upToDate : received.skip)(message.revision);
          break;
        case "log":
          logger[message.level](message.message, message.fields);
          break;
        case "closed":
          end();
      }
    };
    const onFailure = (reason: string) => {
      received.leave();
      worker = undefined;
      clearGauges(memory, row);
      if (isClosing) return closed.resolve();
      if (!hasListened) return listening.reject(new Error(reason));
      const waitMs = backoff.nextMs();
      restarts++;
      logger.error("worker of the gRPC server died, restarting; its watchers reconnect", {
        reason,
        restarts,
        inMs: Math.round(waitMs),
      });
      cancelRestart = clock.schedule(waitMs, launch);
    };
    const start: ServingStart = {
      type: "start",
      address,
      tls: shared.tlsNow(),
      clientOrganization,
      limits,
      memory,
      row,
    };
    const handle = spawn(start, { onMessage, onFailure });
    worker = handle;
    if (store.ready()) handle?.post({ type: "revision", revision: store.revision() });
  };

  launch();
  return {
    listening: listening.promise,
    post: (message) => worker?.post(message),
    async close() {
      isClosing = true;
      if (worker === undefined) return end();
      worker.post({ type: "close" });
      const cancel = clock.schedule(CLOSE_MS, end);
      await closed.promise;
      cancel();
    },
    terminate: end,
  };
}

/** How long a worker may take to close; connections that linger take a second. */
const CLOSE_MS = 5_000;
