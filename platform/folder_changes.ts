/** Waits for changes to the files of a folder. */
import { type ClockAndLogger, errorText } from "./log.ts";
import { basename } from "./files.ts";

/** Change notifications for one folder at a time. */
interface Changes {
  /**
   * Resolves when something may have changed, with the names of the files known to be touched: after a quiet period following
   * the last event, so that no half-written file is read, or after the poll interval. Resolves at once if that happened since
   * the last call, or if the signal is aborted.
   */
  next(): Promise<ReadonlySet<string>>;
  /**
   * Watches this folder from now on; no-op if it is already watched. Starting a watch counts as an event, since a watch
   * does not report earlier changes.
   */
  watch(folder: string): Promise<void>;
}

/** Opens a watch on a folder; throws if that is impossible. */
export type OpenWatch = (folder: string) => AsyncIterable<Deno.FsEvent> & { close(): void };

interface ChangesOptions extends ClockAndLogger {
  readonly signal: AbortSignal;
  /** `Deno.watchFs` by default. */
  readonly openWatch?: OpenWatch;
  /** Quiet period after the last event; ten of them at most after the first one while more keep coming. */
  readonly quietMs: number;
  /** Poll interval. Watches are lost when a folder is replaced, and some file systems do not support them. */
  readonly pollMs: number;
}

const openDenoWatch: OpenWatch = (folder: string): ReturnType<OpenWatch> => Deno.watchFs(folder, { recursive: false });

/** Creates a watcher that watches no folder yet. */
export function watchChanges(options: ChangesOptions): Changes {
  const { clock, signal, quietMs, pollMs } = options;
  const longestQuietMs = 10 * quietMs;
  const touched = new Set<string>();
  let isDue = false;
  let wake = () => {};
  /** The quiet period that has begun, with the time of its first event. */
  let quiet: { readonly firstEventMs: number; cancel(): void } | undefined;

  const fire = () => {
    quiet?.cancel();
    quiet = undefined;
    isDue = true;
    wake();
  };

  const awaitQuiet = () => {
    if (signal.aborted) return;
    const nowMs = clock.monotonic();
    const firstEventMs = quiet?.firstEventMs ?? nowMs;
    quiet?.cancel();
    const waitMs = Math.max(0, Math.min(quietMs, firstEventMs + longestQuietMs - nowMs));
    quiet = { firstEventMs, cancel: clock.schedule(waitMs, fire) };
  };

  const onEvent = (event: Deno.FsEvent) => {
    if (event.kind === "access") return;
    for (const path of event.paths) touched.add(basename(path));
    awaitQuiet();
  };

  const folderWatch = createFolderWatch(options, awaitQuiet, onEvent);

  signal.addEventListener("abort", () => {
    folderWatch.stop();
    fire();
  }, { once: true });

  return {
    async next() {
      if (!isDue && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const cancelPoll = clock.schedule(pollMs, () => {
            if (quiet === undefined) fire();
          });
          wake = () => {
            cancelPoll();
            resolve();
          };
        });
        wake = () => {};
      }
      isDue = false;
      const names = new Set(touched);
      touched.clear();
      return names;
    },
    watch: folderWatch.start,
  };
}

/** Creates the watch on the current folder, without a folder at first. */
function createFolderWatch(
  { logger, signal, openWatch = openDenoWatch }: ChangesOptions,
  onStart: () => void,
  onEvent: (event: Deno.FsEvent) => void,
) {
  let watched: { readonly identity: string; close(): void } | undefined;

  const stop = () => {
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

  return {
    stop,
    async start(folder: string) {
      try {
        const { dev, ino } = await Deno.stat(folder);
        const identity = `${folder} ${dev}:${ino}`;
        if (signal.aborted || watched?.identity === identity) return;
        stop();
        const watcher = openWatch(folder);
        const current = { identity, close: () => watcher.close() };
        watched = current;
        onStart();
        void follow(watcher, () => {
          if (watched === current) watched = undefined;
        });
      } catch (error) {
        stop();
        logger.debug("cannot watch folder, polling instead", { folder, error: errorText(error) });
      }
    },
  };
}
