/** The main isolate's side: starts workers that accept connections on one port, and answers their questions. */
import { type Backoff, type Clock, createBackoff, type Logger, startTurn } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { type Answer, createAnswers, type StoreAnswers } from "./answers.ts";
import type { ServerSettings } from "./context.ts";
import { freeAddress, type IsolateServer, type TcpAddress } from "./isolate.ts";
import { clearGauges, createLag, type Lag, type TallyMemory } from "./metrics.ts";
import type { Chunks } from "./snapshots.ts";
import type { FromServingWorker, SentAnswer, SentPart, ServingStart, ToServingWorker } from "./serving_worker.ts";

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
  readonly settings: ServerSettings;
  /** The settings' address. */
  readonly address: TcpAddress;
  readonly store: Store;
  /** Has a row for each worker. */
  readonly memory: TallyMemory;
  readonly spawn: SpawnServing;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onLag?: (lagMs: number) => void;
}

/** One of the workers, restarted whenever it fails. */
interface ServingWorker {
  /** Resolves when the first worker listens; rejects if it cannot. */
  readonly listening: Promise<void>;
  post(message: ToServingWorker): void;
  /** Shuts it down gracefully. */
  close(): Promise<void>;
  terminate(): void;
}

/** Starts the workers. Throws an Error if they cannot listen on the address. */
export async function serveWithWorkers(options: WorkersOptions): Promise<IsolateServer> {
  const { store, clock, memory: { rows }, onLag } = options;
  const address = await freeAddress(options.address);
  const lag = createLag({ clock, onLag });
  const answers = createAnswers(store, clock);
  const { limits } = options.settings;
  // Each has its share of the large answers in transfer, and of the budget.
  const shares = { transfers: Math.ceil(limits.transfers / rows), unreadBytes: limits.unreadBytes / rows };
  let settings: ServerSettings = { ...options.settings, address, limits: { ...limits, ...shares } };
  const workers = Array.from(
    { length: rows },
    (_, row) => startServingWorker({ row, options, answers, lag, settings: () => settings }),
  );
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
    renew(tls) {
      settings = { ...settings, tls };
      for (const { post } of workers) post({ type: "renew", tls });
    },
    async close() {
      unsubscribe();
      await Promise.all(workers.map(({ close }) => close()));
    },
  };
}

/** The time that a worker has to close; connections that linger take a second. */
const CLOSE_MS = 5_000;

/** The worker of a row, and those after it. */
interface Supervised {
  readonly row: number;
  readonly options: WorkersOptions;
  readonly answers: StoreAnswers;
  readonly lag: Lag;
  /** The settings with the current certificates. */
  readonly settings: () => ServerSettings;
  readonly backoff: Backoff;
  /** Resolves when the first worker listens; rejects if it cannot. */
  readonly listening: PromiseWithResolvers<void>;
  readonly closed: PromiseWithResolvers<void>;
  worker: ServingWorkerHandle | undefined;
  restarts: number;
  state: "starting" | "listening" | "closing";
  cancelTimer(): void;
}

/** Starts the worker of a row, and others after it, with the certificates at that time. */
function startServingWorker(
  given: Pick<Supervised, "row" | "options" | "answers" | "lag" | "settings">,
): ServingWorker {
  const one: Supervised = {
    ...given,
    backoff: createBackoff({ firstMs: 100, longestMs: 30_000 }),
    listening: Promise.withResolvers(),
    closed: Promise.withResolvers(),
    worker: undefined,
    restarts: 0,
    state: "starting",
    cancelTimer() {},
  };
  launch(one);
  return {
    listening: one.listening.promise,
    post: (message) => one.worker?.post(message),
    async close() {
      one.state = "closing";
      one.cancelTimer();
      if (one.worker === undefined) return end(one);
      one.worker.post({ type: "close" });
      one.cancelTimer = one.options.clock.schedule(CLOSE_MS, () => end(one));
      await one.closed.promise;
    },
    terminate: () => end(one),
  };
}

function launch(one: Supervised): void {
  const { row, options: { store, spawn, clock, memory } } = one;
  const received = one.lag.join();
  if (store.ready()) received.skip(store.revision());
  const answer = createAnswerService(one.answers, clock, (message) => handle?.post(message));
  const onFailure = (reason: string) => {
    received.leave();
    failed(one, reason);
  };
  const onMessage = (message: FromServingWorker) => {
    switch (message.type) {
      case "listening":
        if (one.state === "starting") one.state = "listening";
        one.backoff.reset();
        one.listening.resolve();
        break;
      case "failed":
        handle?.terminate();
        onFailure(message.reason);
        break;
      case "ask":
      case "next":
      case "release":
        void answer(message);
        break;
      case "received":
        (message.wasWritten ? received.upToDate : received.skip)(message.revision);
        break;
      case "log":
        one.options.logger[message.level](message.message, message.fields);
        break;
      case "closed":
        end(one);
    }
  };
  const handle = spawn({ type: "start", settings: one.settings(), memory, row }, { onMessage, onFailure });
  one.worker = handle;
  if (store.ready()) handle?.post({ type: "revision", revision: store.revision() });
}

function failed(one: Supervised, reason: string): void {
  const { row, options: { clock, logger, memory } } = one;
  one.worker = undefined;
  clearGauges(memory, row);
  if (one.state === "closing") return end(one);
  if (one.state === "starting") return one.listening.reject(new Error(reason));
  const waitMs = one.backoff.nextMs(), restarts = ++one.restarts;
  const fields = { reason, restarts, inMs: Math.round(waitMs) };
  logger.error("worker of the gRPC server died, restarting; its watchers reconnect", fields);
  one.cancelTimer = clock.schedule(waitMs, () => launch(one));
}

function end(one: Supervised): void {
  one.cancelTimer();
  one.worker?.terminate();
  one.worker = undefined;
  clearGauges(one.options.memory, one.row);
  one.closed.resolve();
}

/** A question of a worker. */
type Question = Extract<FromServingWorker, { readonly type: "ask" | "next" | "release" }>;

/** A first chunk up to this size is probably the only one. */
const SHORT_BYTES = 8 * 1024;

/** Answers the questions of a worker; parts for one watcher are computed as it reads them. */
export function createAnswerService(
  answers: StoreAnswers,
  clock: Clock,
  post: (message: ToServingWorker) => void,
): (question: Question) => Promise<void> {
  // Parts that watchers have not read completely, with the position of the next chunk.
  const unread = new Map<number, { readonly part: Chunks; next: number }>();
  let count = 0;

  const ownPart = (part: Chunks): SentPart => {
    const first = part.at(0);
    if (first === undefined) return { kind: "own", chunks: [], rest: undefined };
    const chunks = [first];
    if (first.length <= SHORT_BYTES) {
      const second = part.at(1);
      if (second === undefined) return { kind: "own", chunks, rest: undefined };
      chunks.push(second);
    }
    unread.set(++count, { part, next: chunks.length });
    return { kind: "own", chunks, rest: count };
  };

  /** Encodes all chunks, with pauses for other work. */
  const allOf = async (part: Chunks): Promise<Uint8Array[]> => {
    const yieldTurn = startTurn(clock);
    const chunks: Uint8Array[] = [];
    for (let chunk = part.at(0); chunk !== undefined; chunk = part.at(chunks.length)) {
      chunks.push(chunk);
      await yieldTurn();
    }
    return chunks;
  };

  const sentAnswer = async ({ parts, position }: Answer<Chunks>, held: readonly number[]): Promise<SentAnswer> => {
    const sent: SentPart[] = [];
    for (const part of parts) {
      const { sharedId: id } = part;
      if (id === undefined) sent.push(ownPart(part));
      else sent.push({ kind: "shared", id, chunks: held.includes(id) ? undefined : await allOf(part) });
    }
    return {
      position,
      parts: sent.filter((part) => part.kind === "shared" ? part.chunks?.length !== 0 : part.chunks.length > 0),
      isCommon: sent.every((part) => part.kind === "shared" || part.chunks.length === 0),
    };
  };

  return async (question) => {
    switch (question.type) {
      case "ask": {
        const { number, position, subscription, held } = question;
        const answer = position === undefined
          ? answers.snapshot(subscription)
          : answers.changes(position, subscription);
        post({ type: "answer", number, answer: answer && await sentAnswer(answer, held) });
        break;
      }
      case "next": {
        const reading = unread.get(question.rest);
        const chunk = reading?.part.at(reading.next++);
        if (chunk === undefined) unread.delete(question.rest);
        post({ type: "chunk", number: question.number, chunk });
        break;
      }
      case "release":
        unread.delete(question.rest);
    }
  };
}
