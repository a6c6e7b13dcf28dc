/** A worker's side: the gRPC server of its connections, with the main isolate's state, and the messages between both. */
import { type Clock, createQuestions, errorText, type Fields, type Logger } from "../../platform/mod.ts";
import type { TlsFiles } from "../address/mod.ts";
import type { Answer, Position, ServedState, Subscription } from "./answers.ts";
import type { ServerSettings } from "./context.ts";
import { type IsolateServer, serveInIsolate } from "./isolate.ts";
import { openTally, type TallyMemory } from "./metrics.ts";
import type { AwaitedChunks } from "./snapshots.ts";
import { createDeadline } from "./waiting.ts";

/** The first message to a worker. */
interface ServingStart {
  readonly type: "start";
  readonly settings: ServerSettings;
  readonly memory: TallyMemory;
  readonly row: number;
}

/** A part of an answer. */
export type SentPart =
  /** Chunks that other answers share; without them if the worker holds them. */
  | { readonly kind: "shared"; readonly id: number; readonly chunks: readonly Uint8Array[] | undefined }
  /** The first chunks of a part for one watcher; the others, if there are any, can be requested one after the other. */
  | { readonly kind: "own"; readonly chunks: readonly Uint8Array[]; readonly rest: number | undefined };

/** An answer to a watcher. */
export interface SentAnswer {
  readonly position: Position;
  readonly parts: readonly SentPart[];
  /** Whether every watcher of the global state at the same revision gets the same. */
  readonly isCommon: boolean;
}

/** A message to a worker. */
export type ToServingWorker =
  | ServingStart
  /** The newest revision of the complete state. */
  | { readonly type: "revision"; readonly revision: number }
  /** The reply to `ask`; undefined if the watcher needs a full snapshot. */
  | { readonly type: "answer"; readonly number: number; readonly answer: SentAnswer | undefined }
  /** The reply to `next`; undefined after the last chunk. */
  | { readonly type: "chunk"; readonly number: number; readonly chunk: Uint8Array | undefined }
  | { readonly type: "renew"; readonly tls: TlsFiles }
  | { readonly type: "close" }
  | { readonly type: "ping" };

/** A message from a worker. */
export type FromServingWorker =
  | { readonly type: "listening" }
  | { readonly type: "failed"; readonly reason: string }
  /** Requests the changes since a position, or a full snapshot without one. */
  | {
    readonly type: "ask";
    readonly number: number;
    readonly position: Position | undefined;
    readonly subscription: Subscription;
    /** The shared parts that the worker holds. */
    readonly held: readonly number[];
  }
  /** Requests the next chunk of a part. */
  | { readonly type: "next"; readonly number: number; readonly rest: number }
  /** A part is not needed any more. */
  | { readonly type: "release"; readonly rest: number }
  /** Every watcher of this worker has received the revision; `wasWritten` if it was written to any. */
  | { readonly type: "received"; readonly revision: number; readonly wasWritten: boolean }
  | {
    readonly type: "log";
    readonly level: "warn" | "info" | "debug";
    readonly message: string;
    readonly fields: Readonly<Record<string, string | number | boolean | undefined>>;
  }
  | { readonly type: "closed" }
  | { readonly type: "pong" };

/** Serves as the main isolate's messages say, which are given to the returned function. */
export function serveAsWorker(
  clock: Clock,
  post: (message: FromServingWorker) => void,
): (message: ToServingWorker) => void {
  const state = createWorkerState(clock, post);
  const logger = createPostingLogger(post, {});
  let server: IsolateServer | undefined;

  const start = async ({ settings, memory, row }: ServingStart) => {
    try {
      server = await serveInIsolate({
        ...settings,
        sharesPort: true,
        state,
        tally: openTally(memory, row),
        clock,
        logger,
        lag: { onReceived: (revision, wasWritten) => post({ type: "received", revision, wasWritten }) },
      });
      post({ type: "listening" });
    } catch (error) {
      post({ type: "failed", reason: errorText(error) });
    }
  };

  return (message) => {
    switch (message.type) {
      case "start":
        void start(message);
        break;
      case "renew":
        server?.renew(message.tls);
        break;
      case "close":
        void Promise.resolve(server?.close()).then(() => post({ type: "closed" }));
        break;
      case "ping":
        post({ type: "pong" });
        break;
      default:
        state.take(message);
    }
  };
}

function createPostingLogger(post: (message: FromServingWorker) => void, bound: Fields): Logger {
  const at = (level: "warn" | "info" | "debug") => (message: string, fields: Fields = {}) => {
    const texts = Object.entries({ ...bound, ...fields }).map(([name, value]) => [
      name,
      typeof value === "number" || typeof value === "boolean" ? value : value === undefined ? undefined : String(value),
    ]);
    post({ type: "log", level, message, fields: Object.fromEntries(texts) });
  };
  return {
    error: at("warn"),
    warn: at("warn"),
    info: at("info"),
    debug: at("debug"),
    trace: () => {},
    // These log entries report events without an end.
    solved: () => {},
    with: (fields) => createPostingLogger(post, { ...bound, ...fields }),
  };
}

interface WorkerState extends ServedState {
  take(message: Extract<ToServingWorker, { type: "revision" | "answer" | "chunk" }>): void;
}

/** The number of chunks from which a shared part is held for other watchers. */
const LONG_PART = 4;
/** The time for which shared parts are held after their last use. */
const HELD_MS = 10_000;

/** Queries the main isolate. Changes that are the same for all global watchers are requested once per revision. */
export function createWorkerState(clock: Clock, post: (message: FromServingWorker) => void): WorkerState {
  const { ask, partOf, takeReply } = createQueries(clock, post);
  const listeners = new Set<() => void>();
  // By the kind of watcher and its revision.
  const common = new Map<string, Promise<SentAnswer | undefined>>();
  let revision = 0;

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
      if (message.type !== "revision") return takeReply(message);
      revision = message.revision;
      common.clear();
      for (const listener of [...listeners]) listener();
    },
  };
}

/** The questions to the main isolate, and the shared parts that a reply may refer to. */
function createQueries(clock: Clock, post: (message: FromServingWorker) => void) {
  const answers = createQuestions<SentAnswer>(clock), chunks = createQuestions<Uint8Array>(clock);
  const held = createHeldParts(clock);
  return {
    async ask(position: Position | undefined, subscription: Subscription): Promise<SentAnswer | undefined> {
      // The reply may refer to a part that expires before it comes.
      const holding = held.all(), ids = [...holding.keys()];
      const answer = await answers.ask((number) => post({ type: "ask", number, position, subscription, held: ids }));
      return answer && withHeld(answer, holding);
    },
    partOf(part: SentPart): AwaitedChunks {
      if (part.kind === "shared") {
        const chunks = part.chunks!;
        held.use(part.id, chunks);
        return { at: (index) => chunks[index] };
      }
      const { chunks: first, rest } = part;
      const next = (rest: number) => chunks.ask((number) => post({ type: "next", number, rest }));
      return { at: (index) => first[index] ?? (rest === undefined ? undefined : next(rest)) };
    },
    takeReply(message: Extract<ToServingWorker, { type: "answer" | "chunk" }>): void {
      if (message.type === "answer") answers.answer(message.number, message.answer);
      else chunks.answer(message.number, message.chunk);
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

function withHeld(answer: SentAnswer, held: ReadonlyMap<number, readonly Uint8Array[]>): SentAnswer {
  const parts = answer.parts.map((part) => (
    part.kind === "shared" && part.chunks === undefined ? { ...part, chunks: held.get(part.id)! } : part
  ));
  return { ...answer, parts };
}
