import { type Clock, startTurn } from "../../platform/mod.ts";
import type { Answer, StoreAnswers } from "./answers.ts";
import type { Chunks } from "./chunks.ts";
import type { FromServingWorker, SentAnswer, SentPart, ToServingWorker } from "./worker_protocol.ts";

/** The numbers of shared parts, the same for all workers. */
export type SharedParts = (part: Chunks) => number;

/** Numbers parts in the order of their first use. */
export function createSharedParts(): SharedParts {
  const ids = new WeakMap<Chunks, number>();
  let count = 0;
  return (part) => {
    const id = ids.get(part) ?? ++count;
    ids.set(part, id);
    return id;
  };
}

/** Options of `createAnswerService`. */
export interface AnswerServiceOptions {
  readonly answers: StoreAnswers;
  readonly idOf: SharedParts;
  readonly clock: Clock;
  readonly post: (message: ToServingWorker) => void;
}

/** Answers one worker. */
export interface AnswerService {
  ask(question: Extract<FromServingWorker, { type: "ask" }>): Promise<void>;
  next(question: Extract<FromServingWorker, { type: "next" }>): void;
  release(rest: number): void;
}

/** A first chunk up to this size is probably the only one. */
const SHORT_BYTES = 8 * 1024;

/** Answers the questions of a worker; parts for one watcher are computed as it reads them. */
export function createAnswerService({ answers, idOf, clock, post }: AnswerServiceOptions): AnswerService {
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
      if (!part.isShared) {
        sent.push(ownPart(part));
        continue;
      }
      const id = idOf(part);
      sent.push({ kind: "shared", id, chunks: held.includes(id) ? undefined : await allOf(part) });
    }
    return {
      position,
      parts: sent.filter((part) => part.kind === "shared" ? part.chunks?.length !== 0 : part.chunks.length > 0),
      isCommon: sent.every((part) => part.kind === "shared" || part.chunks.length === 0),
    };
  };

  return {
    async ask({ number, position, subscription, held }) {
      const answer = position === undefined ? answers.snapshot(subscription) : answers.changes(position, subscription);
      post({ type: "answer", number, answer: answer && await sentAnswer(answer, held) });
    },
    next({ number, rest }) {
      const reading = unread.get(rest);
      const chunk = reading?.part.at(reading.next++);
      if (chunk === undefined) unread.delete(rest);
      post({ type: "chunk", number, chunk });
    },
    release: (rest) => void unread.delete(rest),
  };
}
