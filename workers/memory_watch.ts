/** Tells workers that take too much memory, before the whole program ends for it. */
import { getHeapStatistics } from "node:v8";
import type { Clock } from "../platform/mod.ts";

/** What the program takes, in bytes. */
export interface MemoryTaken {
  /** All of it that is resident. */
  readonly rss: number;
  /** This isolate's heap, which is no worker's. */
  readonly heapTotal: number;
}

/** Watches the memory of workers while they are at work. */
export interface MemoryWatch {
  /**
   * Somebody begins to work. `onExhausted` is called, once, if the workers have taken all that they may while that work
   * went on. Returns what to call when the work is done.
   */
  begin(onExhausted: (reason: string) => void): () => void;
}

/** How a watch is kept. */
export interface MemoryWatchOptions {
  readonly clock: Clock;
  readonly read: () => MemoryTaken;
  /** What all workers together may take beyond what the program took when the watch was made, in bytes. */
  readonly limitBytes: number;
  /** How long from one look to the next. */
  readonly periodMs?: number;
}

/** So many looks are left out after a worker was ended: its memory comes back a little later. */
const LOOKS_LEFT_OUT = 10;

/**
 * V8 ends the whole process when one isolate's heap is full, and tells nobody before; so the memory of the process is looked at
 * while workers work, a moment apart. Which of them it is that takes it cannot be seen: the one that has been at
 * it longest is told, and the next one if that did not help.
 */
export function createMemoryWatch({ clock, read, limitBytes, periodMs = 100 }: MemoryWatchOptions): MemoryWatch {
  const outsideWorkers = ({ rss, heapTotal }: MemoryTaken) => rss - heapTotal;
  const atRest = outsideWorkers(read());
  /** In the order in which they have begun. */
  const atWork = new Set<(reason: string) => void>();
  let cancel: (() => void) | undefined;
  let leaveOut = 0;

  const look = () => {
    cancel = clock.schedule(periodMs, look);
    if (leaveOut > 0) {
      leaveOut--;
      return;
    }
    const taken = outsideWorkers(read()) - atRest;
    if (taken < limitBytes) return;
    const [longest] = atWork;
    leaveOut = LOOKS_LEFT_OUT;
    const inMegabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
    longest?.(`the workers have taken ${inMegabytes(taken)} of memory, ${inMegabytes(limitBytes)} are the limit`);
  };

  return {
    begin(onExhausted) {
      const work = (reason: string) => {
        atWork.delete(work);
        onExhausted(reason);
      };
      atWork.add(work);
      // At once, so that what grows slowly is seen too, though each piece of work is short.
      if (cancel === undefined) cancel = clock.schedule(0, look);
      return () => {
        atWork.delete(work);
        if (atWork.size > 0) return;
        cancel?.();
        cancel = undefined;
      };
    },
  };
}

/** The watch of this program: workers may take three quarters of what V8 allows one isolate, by the memory of the machine. */
export function watchOwnMemory(clock: Clock): MemoryWatch {
  const limitBytes = 0.75 * getHeapStatistics().heap_size_limit;
  return createMemoryWatch({ clock, read: Deno.memoryUsage, limitBytes });
}
