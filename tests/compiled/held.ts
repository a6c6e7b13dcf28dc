/** An arrangement of processes that is held for some minutes. */
export interface Held {
  /** The process IDs by name, whose memory is measured. */
  readonly processes: Readonly<Record<string, number>>;
  /** Problems since the start: connections that ended, or changes that did not arrive. */
  problems(): Iterable<string>;
}
