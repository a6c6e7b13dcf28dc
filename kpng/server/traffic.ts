import type { Clock } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import type { Subscription } from "./answers.ts";
import { createLag } from "./lag.ts";
import type { WatcherStream } from "./watcher.ts";

/** A figure for each kind of watcher. */
export type ByScope = Readonly<Record<Subscription["scope"], number>>;

/** What a server has sent since its start. */
export interface TrafficFigures {
  /** The current watchers. */
  readonly watchers: ByScope;
  /** Ended rounds. */
  readonly rounds: ByScope;
  /** Bytes of messages, with gRPC's framing but without HTTP/2 and TLS. */
  readonly bytes: ByScope;
  /** Watchers dropped because they did not read. */
  readonly slowReaders: number;
  /** Watchers refused at the limit of their number. */
  readonly refusedWatchers: number;
}

/** Counts what a server sends. */
export interface Traffic {
  /** Adds a watcher. */
  join(scope: Subscription["scope"]): WatcherTraffic;
  refusedWatcher(): void;
  figures(): TrafficFigures;
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

/** Counts from zero. `onLag` takes the time in milliseconds from each change until the last watcher received it. */
export function createTraffic(
  store: Pick<Store, "revision" | "subscribe">,
  clock: Clock,
  onLag: (lagMs: number) => void = () => {},
): Traffic {
  const lag = createLag(clock, onLag);
  const watchers = { global: 0, local: 0 };
  const rounds = { global: 0, local: 0 };
  const bytes = { global: 0, local: 0 };
  let slowReaders = 0;
  let refusedWatchers = 0;
  return {
    join(scope) {
      watchers[scope]++;
      const { upToDate, leave } = lag.join();
      return {
        wrote: (count) => void (bytes[scope] += count),
        roundEnded: () => void rounds[scope]++,
        upToDate,
        stalled: () => void slowReaders++,
        leave() {
          watchers[scope]--;
          leave();
        },
      };
    },
    refusedWatcher: () => void refusedWatchers++,
    figures: () => ({
      watchers: { ...watchers },
      rounds: { ...rounds },
      bytes: { ...bytes },
      slowReaders,
      refusedWatchers,
    }),
    close: store.subscribe(() => lag.changed(store.revision())),
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
