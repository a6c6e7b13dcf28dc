/** The main isolate's side: starts workers that accept connections on one port, and answers their questions. */
import {
  type Clock,
  type ClockAndLogger,
  createBackoff,
  startTurn,
  superviseWorker,
  type WorkerHandle,
  type WorkerListener,
} from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { type Answer, createAnswers, type StoreAnswers } from "./answers.ts";
import type { ServerSettings } from "./context.ts";
import { freeAddress, type IsolateServer, type TcpAddress } from "./isolate.ts";
import { clearGauges, createLag, type Lag, type TallyMemory } from "./metrics.ts";
import type { Chunks } from "./snapshots.ts";
import type { FromServingWorker, SentAnswer, SentPart, ToServingWorker } from "./serving_worker.ts";

/** Starts a worker; may throw. */
export type SpawnServing = (listener: WorkerListener<FromServingWorker>) => WorkerHandle<ToServingWorker>;

interface WorkersOptions extends ClockAndLogger {
  readonly settings: ServerSettings;
  readonly address: TcpAddress;
  readonly store: Store;
  readonly memory: TallyMemory;
  readonly spawn: SpawnServing;
  readonly onLag?: (lagMs: number) => void;
}

interface ServingWorker {
  /** Resolves when the first worker listens; rejects if it cannot. */
  readonly listening: Promise<void>;
  post(message: ToServingWorker): void;
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
/** The time after which a worker that has listened counts as sound: the next failure is not a repetition of the last one. */
const SOUND_MS = 60_000;

interface ServingWorkerOptions {
  readonly row: number;
  readonly options: WorkersOptions;
  readonly answers: StoreAnswers;
  readonly lag: Lag;
  readonly settings: () => ServerSettings;
}

/** The state that the main isolate keeps for a worker as long as it runs. */
interface Session {
  readonly answer: (question: Question) => Promise<void>;
  readonly received: ReturnType<Lag["join"]>;
}

/** Starts the worker of a row, and others after it, with the certificates at that time. */
function startServingWorker({ row, options, answers, lag, settings }: ServingWorkerOptions): ServingWorker {
  const { store, clock, memory, logger } = options;
  const backoff = createBackoff({ firstMs: 100, longestMs: 30_000 });
  const listening = Promise.withResolvers<void>();
  let hasListened = false, cancelReset = () => {};
  let session: Session | undefined;

  const receive = (message: FromServingWorker, { answer, received }: Session) => {
    switch (message.type) {
      case "listening":
        hasListened = true;
        cancelReset = clock.schedule(SOUND_MS, backoff.reset);
        listening.resolve();
        break;
      case "failed":
        worker.fail(message.reason);
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
        logger[message.level](message.message, message.fields);
        break;
      case "closed":
        worker.ended();
    }
  };
  const worker = superviseWorker<ToServingWorker, FromServingWorker, WorkerHandle<ToServingWorker>>({
    ...{ clock, backoff },
    spawn(listener) {
      const handle = options.spawn(listener);
      session = { answer: createAnswerService(answers, clock, handle.post), received: lag.join() };
      if (store.ready()) session.received.skip(store.revision());
      return handle;
    },
    firstMessages: () => [
      { type: "start", settings: settings(), memory, row },
      ...(store.ready() ? [{ type: "revision", revision: store.revision() } as const] : []),
    ],
    onMessage: (message) => session && receive(message, session),
    onFailure(reason, restarts, inMs) {
      cancelReset();
      session?.received.leave();
      clearGauges(memory, row);
      if (hasListened) {
        logger.error("worker of the gRPC server died, restarting; its watchers reconnect", { reason, restarts, inMs });
      } else {
        worker.terminate();
        listening.reject(new Error(reason));
      }
    },
  });
  worker.start();
  return {
    listening: listening.promise,
    post: worker.post,
    async close() {
      cancelReset();
      await new Promise<void>((resolve) => worker.stop({ type: "close" }, CLOSE_MS, () => resolve()));
      clearGauges(memory, row);
    },
    terminate() {
      cancelReset();
      worker.terminate();
    },
  };
}

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
