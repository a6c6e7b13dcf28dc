import type { Clock } from "../../platform/mod.ts";
import type { Answer, Position, Subscription } from "./answers.ts";
import type { AwaitedChunks } from "./chunks.ts";
import { createDeadline } from "./deadline.ts";
import type { ServedState } from "./state.ts";
import type { FromServingWorker, SentAnswer, SentPart, ToServingWorker } from "./worker_protocol.ts";

/** The state of the main isolate, in a worker. */
export interface WorkerState extends ServedState {
  take(message: Extract<ToServingWorker, { type: "revision" | "answer" | "chunk" }>): void;
}

/** The number of chunks from which a shared part is held for other watchers. */
const LONG_PART = 4;
/** How long shared parts are held after their last use. */
const HELD_MS = 10_000;

/** Asks the main isolate. Changes that all global watchers receive alike are requested once for each revision. */
export function createWorkerState(clock: Clock, post: (message: FromServingWorker) => void): WorkerState {
  const questions = new Map<number, (reply: SentAnswer | undefined) => void>();
  const chunkWaiters = new Map<number, (chunk: Uint8Array | undefined) => void>();
  const listeners = new Set<() => void>();
  const held = createHeldParts(clock);
  // By the kind of watcher and its revision.
  const common = new Map<string, Promise<SentAnswer | undefined>>();
  let revision = 0;
  let count = 0;

  const ask = (position: Position | undefined, subscription: Subscription): Promise<SentAnswer | undefined> => {
    const { promise, resolve } = Promise.withResolvers<SentAnswer | undefined>();
    // The reply may refer to a part that expires before it comes.
    const holding = held.all();
    questions.set(++count, (answer) => resolve(answer && withHeld(answer, holding)));
    post({ type: "ask", number: count, position, subscription, held: [...holding.keys()] });
    return promise;
  };

  const partOf = (part: SentPart): AwaitedChunks => {
    if (part.kind === "shared") {
      const chunks = part.chunks!;
      held.use(part.id, chunks);
      return { at: (index) => chunks[index] };
    }
    const { chunks, rest } = part;
    const next = (): Promise<Uint8Array | undefined> => {
      const { promise, resolve } = Promise.withResolvers<Uint8Array | undefined>();
      chunkWaiters.set(++count, resolve);
      post({ type: "next", number: count, rest: rest! });
      return promise;
    };
    return { at: (index) => chunks[index] ?? (rest === undefined ? undefined : next()) };
  };

  const release = ({ parts }: SentAnswer) => {
    for (const part of parts) {
      if (part.kind === "own" && part.rest !== undefined) post({ type: "release", rest: part.rest });
    }
  };

  const answerOf = (answer: SentAnswer): Answer => {
    const { parts, position } = answer;
    return { position, parts: parts.map(partOf), release: () => release(answer) };
  };

  const commonChanges = (position: Position, subscription: Subscription): Promise<SentAnswer | undefined> => {
    const key = `${subscription.extended} ${position.revision}`;
    let known = common.get(key);
    if (known === undefined) {
      // Without a node, so that the answer shows whether any has changed.
      known = ask(position, { ...subscription, onlyNode: undefined }).then((answer) => {
        if (answer?.isCommon === false) release(answer);
        return answer;
      });
      common.set(key, known);
    }
    return known;
  };

  return {
    revisions: {
      ready: () => revision > 0,
      revision: () => revision,
      subscribe(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    answers: {
      async changes(position, subscription) {
        const changes = subscription.scope === "global" ? await commonChanges(position, subscription) : undefined;
        const isOwn = subscription.scope === "local" || changes?.isCommon === false;
        const answer = isOwn ? await ask(position, subscription) : changes;
        return answer && answerOf(answer);
      },
      snapshot: async (subscription) => answerOf((await ask(undefined, subscription))!),
    },
    take(message) {
      if (message.type === "answer") {
        questions.get(message.number)?.(message.answer);
        questions.delete(message.number);
      } else if (message.type === "chunk") {
        chunkWaiters.get(message.number)?.(message.chunk);
        chunkWaiters.delete(message.number);
      } else {
        revision = message.revision;
        common.clear();
        for (const listener of [...listeners]) listener();
      }
    },
  };
}

/** The shared parts that later answers can refer to. */
function createHeldParts(clock: Clock) {
  const parts = new Map<number, readonly Uint8Array[]>();
  const expiry = createDeadline(clock, () => parts.clear());
  return {
    all: (): ReadonlyMap<number, readonly Uint8Array[]> => new Map(parts),
    use(id: number, chunks: readonly Uint8Array[]): void {
      if (chunks.length < LONG_PART) return;
      parts.set(id, chunks);
      expiry.set(HELD_MS);
    },
  };
}

/** The answer with the chunks that it only refers to. */
function withHeld(answer: SentAnswer, held: ReadonlyMap<number, readonly Uint8Array[]>): SentAnswer {
  const parts = answer.parts.map((part) => (
    part.kind === "shared" && part.chunks === undefined ? { ...part, chunks: held.get(part.id)! } : part
  ));
  return { ...answer, parts };
}
