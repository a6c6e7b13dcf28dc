import type { Revisions } from "./state.ts";
import type { Subscription } from "./answers.ts";
import { createLag, type LagOptions } from "./lag.ts";
import type { Tally } from "./tally.ts";
import type { WatcherStream } from "./watcher.ts";

/** Counts what a server sends. */
export interface Traffic {
  /** Adds a watcher. */
  join(scope: Subscription["scope"]): WatcherTraffic;
  refusedWatcher(): void;
  /** Stops following the store. */
  close(): void;
}

/** Counts what one watcher receives. */
export interface WatcherTraffic {
  wrote(bytes: number): void;
  /** The end of a round was written. */
  roundEnded(): void;
  /** The watcher has received everything up to this revision. */
  upToDate(revision: number): void;
  /** The watcher did not read for too long. */
  stalled(): void;
  /** Removes the watcher. */
  leave(): void;
}

/** Counts in a tally, and measures how long changes take. */
export function createTraffic(
  revisions: Revisions,
  tally: Tally,
  lagOptions: LagOptions,
): Traffic {
  const lag = createLag(lagOptions);
  return {
    join(scope) {
      tally.add(`watchers ${scope}`, 1);
      const { upToDate, leave } = lag.join();
      return {
        wrote: (count) => tally.add(`bytes ${scope}`, count),
        roundEnded: () => tally.add(`rounds ${scope}`, 1),
        upToDate,
        stalled: () => tally.add("slow readers", 1),
        leave() {
          tally.add(`watchers ${scope}`, -1);
          leave();
        },
      };
    },
    refusedWatcher: () => tally.add("refused watchers", 1),
    close: revisions.subscribe(() => lag.changed(revisions.revision())),
  };
}

/** A stream whose bytes are counted when they were accepted. */
export function counted(stream: WatcherStream, { wrote }: Pick<WatcherTraffic, "wrote">): WatcherStream {
  return {
    nextRequest: stream.nextRequest,
    async write(bytes) {
      await stream.write(bytes);
      wrote(bytes.length);
    },
  };
}
