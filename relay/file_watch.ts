/** Detects that the process has run out of file descriptors, and when some are available again. */
import { type Clock, errorText } from "../platform/mod.ts";

/** Detects a lack of file descriptors. */
export interface FileWatch {
  /** Handles an error of a system call, which may be a lack of descriptors. */
  note(error: unknown): void;
  /** Notes that files were opened, and schedules a check for available descriptors. */
  touch(): void;
  stop(): void;
}

/** The delay before the check. */
const PROBE_MS = 1000;

/** Whether a system call failed because the process or the system has no descriptors left. */
export function isOutOfFiles(error: unknown): boolean {
  return /EMFILE|ENFILE|too many open files/i.test(errorText(error));
}

/**
 * Creates a watch without a timer. An accept that fails for lack of descriptors stops a `node:net` server permanently, without
 * an error (Deno 2.7 and 2.9), so the lack must be detected here.
 */
export function createFileWatch({ clock, probe, onRecovered }: {
  readonly clock: Clock;
  /** Opens and closes a file. Throws if no descriptor is available. */
  readonly probe: () => void;
  /** Called once descriptors are available again. */
  readonly onRecovered: () => void;
}): FileWatch {
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
