/**
 * Packets that rules of this family have met so far, as far as the kernel remembers: a count restarts when its rule is
 * rewritten. kube-proxy counts the same with nfacct.
 */
export interface PacketCounts {
  /** Dropped because connection tracking took them for INVALID. */
  readonly ctStateInvalidDropped: number;
  /** First packets of connections to a node port at a loopback address. */
  readonly localhostNodePortsAccepted: number;
}

/** What of the kernel's state is there for one service port, as the tools write it. */
export interface RuleDescription {
  /** Each place with what is in it for the service port: `nat KUBE-SVC-…` and its rules, `map services` and elements. */
  readonly parts: readonly RulePart[];
  /** Why the kernel does not have it, where it refused it. */
  readonly problem: string | undefined;
}

/** One place in the kernel, and the lines that are in it for a service port. */
export interface RulePart {
  readonly place: string;
  readonly lines: readonly string[];
}
