/** Detects workers that use too much memory before V8 ends the whole process. */
import type { Clock } from "../platform/mod.ts";

/** The memory of the program, in bytes. */
interface MemoryTaken {
  /** The resident set of the process. */
  readonly rss: number;
  /** The heap of the main isolate. */
  readonly heapTotal: number;
}

/** Marks the beginning of a worker's work, during which `onExhausted` is called at most once; returns its end. */
export type MemoryWatch = (onExhausted: (reason: string) => void) => () => void;

/** The interval between readings, in milliseconds. */
const PERIOD_MS = 100;
/** Less than three quarters of V8's limit on any machine. */
const ALWAYS_ALLOWED_BYTES = 64e6;
/** Readings to skip after a worker was ended: its memory is freed a little later. */
const READINGS_SKIPPED = 10;

/**
 * Reads the memory of the process in short intervals while workers work, because V8 ends the whole process without warning
 * when one isolate's heap is full. Which worker takes the memory is unknown: the one that has worked longest is reported,
 * and then the next one if that did not help.
 * @param readLimit returns the maximum growth of the program's memory by all workers together since the watch was created,
 * in bytes; called when they have taken 64 MB for the first time, which is always allowed
 */
export function createMemoryWatch(
  clock: Clock,
  read: () => MemoryTaken,
  readLimit: () => Promise<number>,
): MemoryWatch {
  const outsideWorkers = ({ rss, heapTotal }: MemoryTaken) => rss - heapTotal;
  const atRest = outsideWorkers(read());
  /** In the order in which they began. */
  const atWork = new Set<(reason: string) => void>();
  let cancel: (() => void) | undefined;
  let skip = 0;
  let limitBytes: number | undefined;

  const look = () => {
    cancel = clock.schedule(PERIOD_MS, look);
    if (skip > 0) {
      skip--;
      return;
    }
    const taken = outsideWorkers(read()) - atRest;
    if (taken < ALWAYS_ALLOWED_BYTES) return;
    if (limitBytes === undefined) {
      limitBytes = Infinity;
      readLimit().then((read) => limitBytes = read);
      return;
    }
    if (taken < limitBytes) return;
    const [longest] = atWork;
    skip = READINGS_SKIPPED;
    const inMegabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
    longest?.(`the workers have taken ${inMegabytes(taken)} of memory, their limit is ${inMegabytes(limitBytes)}`);
  };

  return (onExhausted) => {
    const work = (reason: string) => {
      atWork.delete(work);
      onExhausted(reason);
    };
    atWork.add(work);
    // At once, so that slow growth over many short pieces of work is noticed, too.
    if (cancel === undefined) cancel = clock.schedule(0, look);
    return () => {
      atWork.delete(work);
      if (atWork.size > 0) return;
      cancel?.();
      cancel = undefined;
    };
  };
}

/** The watch of this program: workers may take three quarters of what V8 allows one isolate on this machine. */
export function watchOwnMemory(clock: Clock, read: () => MemoryTaken = Deno.memoryUsage): MemoryWatch {
  return createMemoryWatch(clock, read, async () => {
    // Loaded late because it takes half a megabyte itself.
    const { getHeapStatistics } = await import("node:v8");
    return 0.75 * getHeapStatistics().heap_size_limit;
  });
}
