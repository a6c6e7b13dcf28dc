/** The change of one place in the kernel by one run of a tool, as `sluice diff` shows it. */
export type PlaceChange = ChainChange | MembersChange;

/** A chain that is written or removed as a whole. */
export interface ChainChange {
  readonly kind: "chain";
  /** `nat KUBE-SERVICES`, `chain services`. */
  readonly place: string;
  /** The rules before, in order; undefined for a chain that does not exist. */
  readonly held: readonly string[] | undefined;
  /** The rules after, in order; undefined for a chain that is removed. */
  readonly wanted: readonly string[] | undefined;
}

/** Something that gains and loses members: a set, a virtual server, an interface, a built-in chain of iptables. */
export interface MembersChange {
  readonly kind: "built-in chain" | "members";
  /** `nat PREROUTING`, `map services`, `virtual server -t 10.96.0.10:80`. */
  readonly place: string;
  readonly removed: readonly string[];
  readonly added: readonly string[];
  /** Set where the run creates or removes the place itself. */
  readonly what?: "missing" | "unwanted";
}
