/** Waits for changes of the files in a folder. */
import { basename } from "node:path";
import type { Clock } from "./clock.ts";
import { errorText, type Logger } from "./log.ts";

/** Tells when to look at the files again. */
export interface Changes {
  /**
   * Resolves when something may have changed, with the names of the files that surely were touched: some quiet after the
   * last event, so that a file that is being written is not read half, or when it is time to look without an event.
   * Resolves at once when that happened since the last call, and when the signal is aborted.
   */
  next(): Promise<ReadonlySet<string>>;
  /**
   * Watches this folder from now on; does nothing where it is the one being watched. What happened before a watch began
   * is not told by it, so that its beginning counts as an event.
   */
  watch(folder: string): Promise<void>;
}

/** Opens a watch on a folder; throws where there cannot be one. */
export type OpenWatch = (folder: string) => AsyncIterable<Deno.FsEvent> & { close(): void };

/** What `watchChanges` needs. */
export interface ChangesOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly openWatch: OpenWatch;
  /** How long no event must have come. */
  readonly quietMs: number;
  /** How long events may go on coming. */
  readonly longestQuietMs: number;
  /**
   * How long to wait without events: watches are lost when a folder is replaced, and some file systems have none.
   */
  readonly pollMs: number;
}

/** Watches a folder without its subfolders. */
export const openDenoWatch: OpenWatch = (folder: string): ReturnType<OpenWatch> =>
  Deno.watchFs(folder, { recursive: false });

/** Starts without a watch. */
export function watchChanges(options: ChangesOptions): Changes {
  const { clock, logger, signal, openWatch, quietMs, longestQuietMs, pollMs } = options;
  let touched = new Set<string>();
  let due = false;
  let wake = () => {};
  let firstEventMs: number | undefined;
  let cancelQuiet = () => {};
  let watched: { readonly identity: string; close(): void } | undefined;

  const fire = () => {
    cancelQuiet();
    firstEventMs = undefined;
    due = true;
    wake();
  };

  const awaitQuiet = () => {
    if (signal.aborted) return;
    const nowMs = clock.monotonic();
    firstEventMs ??= nowMs;
    cancelQuiet();
    cancelQuiet = clock.schedule(Math.max(0, Math.min(quietMs, firstEventMs + longestQuietMs - nowMs)), fire);
  };

  const onEvent = (event: Deno.FsEvent) => {
    if (event.kind === "access") return;
    for (const path of event.paths) touched.add(basename(path));
    awaitQuiet();
  };

  const unwatch = () => {
    watched?.close();
    watched = undefined;
  };

  const follow = async (watcher: ReturnType<OpenWatch>, onEnd: () => void) => {
    try {
      for await (const event of watcher) onEvent(event);
    } catch (error) {
      logger.debug("folder watch ended", { error: errorText(error) });
    }
    onEnd();
  };

  signal.addEventListener("abort", () => {
    unwatch();
    fire();
  }, { once: true });

  return {
    async next() {
      if (!due && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const cancelPoll = clock.schedule(pollMs, () => {
            if (firstEventMs === undefined) fire();
          });
          wake = () => {
            cancelPoll();
            resolve();
          };
        });
        wake = () => {};
      }
      due = false;
      const names = touched;
      touched = new Set();
      return names;
    },
    async watch(folder) {
      try {
        const { dev, ino } = await Deno.stat(folder);
        const identity = `${folder} ${dev}:${ino}`;
        if (signal.aborted || watched?.identity === identity) return;
        unwatch();
        const watcher = openWatch(folder);
        const current = { identity, close: () => watcher.close() };
        watched = current;
        awaitQuiet();
        void follow(watcher, () => {
          if (watched === current) watched = undefined;
        });
      } catch (error) {
        unwatch();
        logger.debug("cannot watch folder, polling it", {
          folder,
          error: errorText(error),
        });
      }
    },
  };
}
