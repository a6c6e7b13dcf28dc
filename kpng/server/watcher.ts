import { type Clock, sleep } from "../../platform/mod.ts";
import { framesOf } from "../transport/mod.ts";
import { RESET, SYNC } from "../views/mod.ts";
import type { Answer, Answers, Position, Subscription } from "./answers.ts";
import type { Place, Places } from "./places.ts";
import type { Wakeups } from "./wakeups.ts";

/** The stream of one watcher. */
export interface WatcherStream {
  /** Resolves with the next request; undefined when there will be none. */
  nextRequest(): Promise<Subscription | undefined>;
  /** Resolves when the reader has taken these bytes. Rejects when it is gone or has stalled. */
  write(bytes: Uint8Array): Promise<void>;
}

/** What serves a watcher. */
export interface WatcherOptions {
  readonly answers: Answers;
  readonly clock: Clock;
  readonly changed: Wakeups["changed"];
  /** Those who are told much at once share these with all other watchers. */
  readonly places: Places;
  /** Aborted when the watcher is gone. */
  readonly signal: AbortSignal;
}

const BEGINNING_OF_EVERYTHING = framesOf([RESET]);
const END_OF_ROUND = framesOf([SYNC]);
/** How many pieces of an answer may be written without a place: as much as rounds have that are told while things change. */
const PIECES_WITHOUT_PLACE = 4;
/**
 * Answers each request of a watcher with what is different since its last one, computed when the watcher has room for it,
 * and holds the answer back until there is something to say. Resolves when no more requests come.
 */
export async function serveWatcher(stream: WatcherStream, options: WatcherOptions): Promise<void> {
  const { answers, changed, places, signal } = options;
  const place = places.join();
  let position: Position | undefined;
  try {
    // Before everything was read once, there is nothing to tell.
    await changed(0, signal);
    for (;;) {
      const request = await stream.nextRequest();
      if (request === undefined) return;
      for (;;) {
        const isEverything = answers.tellsEverything(position);
        if (isEverything) {
          // A reader that has no room for these few bytes keeps nobody waiting: it gets no place.
          position = undefined;
          await stream.write(BEGINNING_OF_EVERYTHING);
          // Whoever must wait waits without an answer: the one that it gets is then the newest.
          await place.enter(signal);
        }
        const answer = answers.since(position, request);
        position = answer.position;
        const parts = isEverything ? answer.parts.slice(1) : answer.parts;
        const wrote = await writeParts(parts, stream, place, options);
        place.leave();
        if (wrote || isEverything) break;
        await changed(position.revision, signal);
      }
      await stream.write(END_OF_ROUND);
    }
  } finally {
    place.leave();
  }
}

/** Returns whether there was anything to write. */
async function writeParts(
  parts: Answer["parts"],
  stream: WatcherStream,
  place: Place,
  { clock, places, signal }: WatcherOptions,
): Promise<boolean> {
  let wrote = false;
  for (const part of parts) {
    for (let i = 0;; i++) {
      if (i >= PIECES_WITHOUT_PLACE) await place.enter(signal);
      const chunk = part.at(i);
      if (chunk === undefined) break;
      const lapse = clock.schedule(places.patienceMs(), () => place.leave());
      await stream.write(chunk).finally(lapse);
      wrote = true;
      // Making the next one takes its time: others get theirs first.
      if (i > 0) await sleep(clock, 0, signal);
    }
  }
  return wrote;
}
