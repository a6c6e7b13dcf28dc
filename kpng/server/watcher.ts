import { type Clock, sleep } from "../../platform/mod.ts";
import { framesOf } from "../transport/mod.ts";
import { RESET, SYNC } from "../views/mod.ts";
import type { Answer, Answers, Position, Subscription } from "./answers.ts";
import type { Semaphore, SemaphoreSlot } from "./semaphore.ts";
import type { ChangeWaiters } from "./change_waiters.ts";
import type { WatcherTraffic } from "./traffic.ts";

/** The stream of one watcher. */
export interface WatcherStream {
  /** Resolves with the next request; undefined after the last one. */
  nextRequest(): Promise<Subscription | undefined>;
  /** Resolves when the reader has accepted the bytes. Rejects if it is gone or has stalled. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Options of `serveWatcher`. */
export interface WatcherOptions {
  readonly answers: Answers;
  readonly clock: Clock;
  readonly changed: ChangeWaiters["changed"];
  /** Limits the concurrent large answers of all watchers. */
  readonly transfers: Semaphore;
  /** Counts what the watcher receives. */
  readonly traffic?: Pick<WatcherTraffic, "roundEnded" | "upToDate">;
  /** Aborted when the watcher disconnects. */
  readonly signal: AbortSignal;
}

const BEGINNING_OF_EVERYTHING = framesOf([RESET]);
const END_OF_ROUND = framesOf([SYNC]);
/** The chunks of an answer that may be written without a slot: enough for ordinary rounds of changes. */
const CHUNKS_WITHOUT_SLOT = 4;
/**
 * Answers each request of a watcher with the changes since its last one, computed when the watcher can accept them, and waits
 * until there are some. Resolves after the last request.
 */
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
      for (;;) {
        const isSnapshot = answers.needsSnapshot(position);
        if (isSnapshot) {
          // A reader that does not accept these few bytes gets no slot, and so blocks no other.
          position = undefined;
          await stream.write(BEGINNING_OF_EVERYTHING);
          // Wait before computing the answer, so that it is the newest.
          await slot.enter(signal);
        }
        const answer = answers.since(position, request);
        position = answer.position;
        const parts = isSnapshot ? answer.parts.slice(1) : answer.parts;
        const wrote = await writeParts(parts, stream, slot, options);
        slot.leave();
        if (wrote || isSnapshot) break;
        traffic?.upToDate(position.revision);
        await changed(position.revision, signal);
      }
      await stream.write(END_OF_ROUND);
      traffic?.roundEnded();
      traffic?.upToDate(position.revision);
    }
  } finally {
    slot.leave();
  }
}

/** Returns whether there was anything to write. */
async function writeParts(
  parts: Answer["parts"],
  stream: WatcherStream,
  slot: SemaphoreSlot,
  { clock, transfers, signal }: WatcherOptions,
): Promise<boolean> {
  let wrote = false;
  for (const part of parts) {
    for (let i = 0;; i++) {
      if (i >= CHUNKS_WITHOUT_SLOT) await slot.enter(signal);
      const chunk = part.at(i);
      if (chunk === undefined) break;
      const lapse = clock.schedule(transfers.holdLimitMs(), () => slot.leave());
      await stream.write(chunk).finally(lapse);
      wrote = true;
      // Let other work run before the next chunk is computed.
      if (i > 0) await sleep(clock, 0, signal);
    }
  }
  return wrote;
}
