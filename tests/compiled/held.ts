/** An arrangement of processes that is held for some minutes. */
export interface Held {
  /** The process IDs by name, whose memory is measured. */
  readonly processes: Readonly<Record<string, number>>;
  /** Problems since the start: connections that ended, or changes that did not arrive. */
  problems(): Iterable<string>;
}

/**
 * The paths that were watched again since `before`; the first watch of a path is none, since a proxy is in sync before its last
 * watch begins.
 */
export function watchedAgain(before: readonly string[], now: readonly string[]): readonly string[] {
  return now.filter((path, i) => i >= before.length && now.indexOf(path) < i);
}
