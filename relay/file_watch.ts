/** Finds out that the process has run out of files, and when it has some again. */
import { type Clock, errorText } from "../platform/mod.ts";

/** Inputs of `createFileWatch`. */
export interface FileWatchOptions {
  readonly clock: Clock;
  /** Opens a file and closes it. Throws if there is none left. */
  readonly probe: () => void;
  /** Called once files are available again. */
  readonly onRecovered: () => void;
}

/** Watches for a lack of files. */
export interface FileWatch {
  /** Takes an error of the system, which may be a lack of files. */
  note(error: unknown): void;
  /** Says that files were opened: whether some are left is tried out soon. */
  touch(): void;
  stop(): void;
}

/** The wait before files are tried out. */
const PROBE_MS = 1000;

/** Whether the error of a system call is a lack of files, of the process or of the system. */
export function isOutOfFiles(error: unknown): boolean {
  return /EMFILE|ENFILE|too many open files/i.test(errorText(error));
}

/**
 * Creates a watch without a timer. An accept that fails for lack of files stops a server of `node:net` for good, without
 * an error (Deno 2.7 and 2.9), so the lack has to be noticed elsewhere.
 */
export function createFileWatch({ clock, probe, onRecovered }: FileWatchOptions): FileWatch {
  let isExhausted = false;
  let cancel: (() => void) | undefined;
  const tryOut = () => {
    cancel = undefined;
    try {
      probe();
    } catch (error) {
      if (isOutOfFiles(error)) isExhausted = true;
      if (isExhausted) touch();
      return;
    }
    if (!isExhausted) return;
    isExhausted = false;
    onRecovered();
  };
  const touch = () => {
    cancel ??= clock.schedule(PROBE_MS, tryOut);
  };
  return {
    touch,
    note(error) {
      if (!isOutOfFiles(error)) return;
      isExhausted = true;
      touch();
    },
    stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}
