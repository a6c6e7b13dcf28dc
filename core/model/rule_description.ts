/**
 * Counts of packets that matched rules of one family. A count restarts when its rule is rewritten. kube-proxy counts the same
 * packets with nfacct.
 */
export interface PacketCounts {
  /** Packets dropped because conntrack classified them as INVALID. */
  readonly ctStateInvalidDropped: number;
  /** First packets of connections to a node port at a loopback address. */
  readonly localhostNodePortsAccepted: number;
}

/** The part of the kernel's state that belongs to one service port, as the tools write it. */
export interface RuleDescription {
  /** Each place with its lines: `nat KUBE-SVC-…` with rules, `map services` with elements. */
  readonly parts: readonly RulePart[];
  /** The reason why the kernel refused it; undefined if it did not. */
  readonly problem: string | undefined;
}

/** One place in the kernel with the lines of a service port. */
export interface RulePart {
  readonly place: string;
  readonly lines: readonly string[];
}
