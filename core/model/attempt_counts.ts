/** The connection attempts of one endpoint since the kernel began to count. */
export interface Attempts {
  /** The SYN packets sent to it, repetitions included. */
  readonly made: number;
  /** The SYN-ACK packets that came back. */
  readonly answered: number;
}

/** The connection attempts of TCP endpoints, by `address:port`. Endpoints without attempts for half a minute are absent. */
export type AttemptCounts = ReadonlyMap<string, Attempts>;
