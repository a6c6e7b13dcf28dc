/** Reasons in the kernel why packets of services may not flow, and what is examined for them. */
import * as shape from "../../platform/shapes/mod.ts";

/**
 * The reasons why packets of services may not flow that this node's kernel shows:
 * - `forwarding-off`: the kernel forwards no packets of the family;
 * - `table-full`: the connection tracking table is full, so new connections are dropped;
 * - `foreign-chain`: a chain of another program drops packets;
 * - `rp-filter`: reverse path filtering is strict, which drops packets on asymmetric routes.
 */
const PATH_CAUSES = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/** One of `PATH_CAUSES`. */
export type PathCause = typeof PATH_CAUSES[number];

/** Something in the kernel that may stop packets of services. */
export const PATH_FINDING = shape.record({
  /** Becomes a label of metrics. */
  cause: shape.oneOf(...PATH_CAUSES),
  /** The details in a sentence without its full stop. */
  detail: shape.TEXT,
  /** Whether it stops the pods' packets in any case; otherwise it is only a suspect once packets stop. */
  certain: shape.BOOLEAN,
});

/** See `PATH_FINDING`. */
export type PathFinding = shape.TypeOf<typeof PATH_FINDING>;

/** The packets that rules of other programs must not drop: the addresses and ports of services and of this node's pods. */
export const SERVED_ADDRESSES = shape.record({
  /** Canonical prefixes of one family. */
  prefixes: shape.list(shape.PREFIX),
  /** The ports of services and endpoints at these addresses. */
  ports: shape.list(shape.PORT_NUMBER),
  nodePorts: shape.list(shape.PORT_NUMBER),
});

/** See `SERVED_ADDRESSES`. */
export type ServedAddresses = shape.TypeOf<typeof SERVED_ADDRESSES>;

/** A rule of another program that drops packets to or from served addresses. */
export const RULE_IN_THE_WAY = shape.record({
  /** Table, chain and rule, in a sentence without its full stop. */
  detail: shape.TEXT,
  /** The packets that it has dropped; undefined if it does not count them. */
  packets: shape.orUndefined(shape.COUNT),
});

/** See `RULE_IN_THE_WAY`. */
export type RuleInTheWay = shape.TypeOf<typeof RULE_IN_THE_WAY>;

/**
 * How much to examine: `settings` reads the kernel settings that are certain to stop packets, which takes milliseconds;
 * `everything` also lists the chains of other programs.
 */
export const EXAMINATION = shape.oneOf("settings", "everything");

/** See `EXAMINATION`. */
export type PathExamination = shape.TypeOf<typeof EXAMINATION>;
