import { type Clock, joinBytes, startTurn } from "../../platform/mod.ts";
import { METHODS, WATCH_REQUEST } from "../messages/mod.ts";
import { framesOf, STATUS, StatusError } from "../transport/mod.ts";
import { RESET, SYNC } from "../views/mod.ts";
import type { Answer, Answers, Position, Subscription } from "./answers.ts";
import type { Call } from "./call.ts";
import type { WatcherTraffic } from "./metrics.ts";
import { type ChangeWaiters, createDeadline, type Semaphore, type SemaphoreSlot } from "./waiting.ts";

interface WatcherStream {
  /** Resolves with the next request; undefined after the last one. */
  nextRequest(): Promise<Subscription | undefined>;
  /** Resolves when the reader has accepted the bytes. Rejects if it has disconnected or stalled. */
  write(bytes: Uint8Array): Promise<void>;
}

interface WatcherOptions {
  readonly answers: Answers;
  readonly clock: Clock;
  readonly changed: ChangeWaiters["changed"];
  /** Limits the concurrent large answers of all watchers. */
  readonly transfers: Semaphore;
  readonly traffic?: Pick<WatcherTraffic, "roundEnded" | "upToDate">;
  readonly signal: AbortSignal;
}

const BEGINNING_OF_EVERYTHING = framesOf([RESET]);
const EMPTY = new Uint8Array(0);
const END_OF_ROUND = framesOf([SYNC]);
/** The chunks of an answer that may be written without a slot: enough for ordinary rounds of changes. */
const CHUNKS_WITHOUT_SLOT = 4;
/** A last chunk up to this size is written together with the end of the round: a write costs more than the copy. */
const JOINED_BYTES = 8 * 1024;
/** The maximum time that a watcher holds the event loop between two chunks. */
const TURN_MS = 5;

/** Answers each request with the changes since the last one, once there are some. Resolves after the last request. */
export async function serveWatcher(stream: WatcherStream, options: WatcherOptions): Promise<void> {
  const { answers, changed, transfers, traffic, signal } = options;
  const slot = transfers.join();
  let position: Position | undefined;
  try {
    // Wait until the state is complete.
    await changed(0, signal);
    for (;;) {
      const request = await stream.nextRequest();
      if (request === undefined) return;
      let last: Uint8Array | undefined;
      for (;;) {
        let answer = position && await answers.changes(position, request);
        const isSnapshot = answer === undefined;
        if (answer === undefined) {
          // A reader that does not accept these few bytes gets no slot, and so blocks no other.
          position = undefined;
          await stream.write(BEGINNING_OF_EVERYTHING);
          // Wait before computing the answer, so that it is the newest.
          await slot.enter(signal);
          answer = await answers.snapshot(request);
        }
        position = answer.position;
        try {
          last = await writeParts(answer.parts, stream, slot, options);
        } finally {
          answer.release?.();
        }
        slot.leave();
        if (last !== undefined || isSnapshot) break;
        traffic?.upToDate(position.revision);
        await changed(position.revision, signal);
      }
      await stream.write(joinBytes([last ?? EMPTY, END_OF_ROUND]));
      traffic?.roundEnded();
      traffic?.upToDate(position.revision);
    }
  } finally {
    slot.leave();
  }
}

/** Returns the last chunk if it is short and was not written, an empty one if all were, and undefined if there was none. */
async function writeParts(
  parts: Answer["parts"],
  stream: WatcherStream,
  slot: SemaphoreSlot,
  { clock, transfers, signal }: WatcherOptions,
): Promise<Uint8Array | undefined> {
  const lapse = createDeadline(clock, () => slot.leave());
  const yieldTurn = startTurn(clock, TURN_MS);
  const write = async (chunk: Uint8Array) => {
    lapse.set(transfers.holdLimitMs());
    await stream.write(chunk);
    lapse.clear();
    // Let other work run before the next chunk is computed.
    await yieldTurn();
    signal.throwIfAborted();
  };
  let last: Uint8Array | undefined;
  try {
    for (const part of parts) {
      for (let i = 0;; i++) {
        if (i >= CHUNKS_WITHOUT_SLOT) await slot.enter(signal);
        const chunk = await part.at(i);
        if (chunk === undefined) break;
        if (last !== undefined && last.length > 0) await write(last);
        last = chunk;
        if (chunk.length <= JOINED_BYTES) continue;
        await write(chunk);
        last = EMPTY;
      }
    }
  } finally {
    lapse.stop();
  }
  return last;
}

/** The scope of a watch's path; undefined for another method. */
export function scopeOf(path: string): Subscription["scope"] | undefined {
  return path === METHODS.global ? "global" : path === METHODS.local ? "local" : undefined;
}

/** The stream of a `Watch` call. The first request determines the subscription. Bytes count when they were accepted. */
export function openWatch(
  call: Call,
  scope: Subscription["scope"],
  { wrote }: Pick<WatcherTraffic, "wrote">,
): WatcherStream {
  const { next, write } = call.open((message): Subscription => {
    const { nodeName = "", extended = false, onlyNode } = WATCH_REQUEST.decode(message);
    return { scope, nodeName, extended, onlyNode: extended ? onlyNode : undefined };
  });
  let subscribed: Subscription | undefined;
  return {
    async nextRequest() {
      const request = await next();
      // The differences are relative to what this stream has received for its node.
      if (request !== undefined && subscribed !== undefined && request.nodeName !== subscribed.nodeName) {
        throw new StatusError(STATUS.INVALID_ARGUMENT, "the node of a stream cannot change");
      }
      subscribed ??= request;
      return request && subscribed;
    },
    async write(bytes) {
      await write(bytes);
      wrote(bytes.length);
    },
  };
}
