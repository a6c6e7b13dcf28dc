/** Reasons in the kernel why packets of services may not flow, and what is examined for them. */
import {
  BOOLEAN,
  COUNT,
  list,
  oneOf,
  orUndefined,
  PORT_NUMBER,
  PREFIX,
  record,
  TEXT,
  type TypeOf,
} from "../../platform/shapes/mod.ts";

/**
 * The reasons why packets of services may not flow that this node's kernel shows:
 * - `forwarding-off`: the kernel forwards no packets of the family;
 * - `table-full`: the connection tracking table is full, so new connections are dropped;
 * - `foreign-chain`: a chain of another program drops packets;
 * - `rp-filter`: reverse path filtering is strict, which drops packets on asymmetric routes.
 */
export const PATH_CAUSES = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/** One of `PATH_CAUSES`. */
export type PathCause = typeof PATH_CAUSES[number];

/** Something in the kernel that may stop packets of services. */
export const PATH_FINDING = record({
  /** Becomes a label of metrics. */
  cause: oneOf(...PATH_CAUSES),
  /** The details in a sentence without its full stop. */
  detail: TEXT,
  /** Whether it stops the pods' packets in any case; otherwise it is only a suspect once packets stop. */
  certain: BOOLEAN,
});

/** See `PATH_FINDING`. */
export type PathFinding = TypeOf<typeof PATH_FINDING>;

/** What rules of other programs are compared with: the addresses and ports of services and of this node's pods. */
export const SERVED_ADDRESSES = record({
  /** Canonical prefixes of one family. */
  prefixes: list(PREFIX),
  /** The ports of services and endpoints at these addresses. */
  ports: list(PORT_NUMBER),
  nodePorts: list(PORT_NUMBER),
});

/** See `SERVED_ADDRESSES`. */
export type ServedAddresses = TypeOf<typeof SERVED_ADDRESSES>;

/** A rule of another program that drops packets to or from served addresses. */
export const RULE_IN_THE_WAY = record({
  /** Table, chain and rule, in a sentence without its full stop. */
  detail: TEXT,
  /** The packets that it has dropped; undefined if it does not count them. */
  packets: orUndefined(COUNT),
});

/** See `RULE_IN_THE_WAY`. */
export type RuleInTheWay = TypeOf<typeof RULE_IN_THE_WAY>;

/**
 * How much to examine: `settings` reads the kernel settings that are certain to stop packets, which takes milliseconds;
 * `everything` also lists the chains of other programs.
 */
export const EXAMINATION = oneOf("settings", "everything");

/** See `EXAMINATION`. */
export type PathExamination = TypeOf<typeof EXAMINATION>;
