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
  validElements,
} from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";

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
const PATH_FINDING = record({
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
const SERVED_ADDRESSES = record({
  /** Canonical prefixes of one family. */
  prefixes: list(PREFIX),
  /** The ports of services and endpoints at these addresses. */
  ports: list(PORT_NUMBER),
  nodePorts: list(PORT_NUMBER),
});

/** See `SERVED_ADDRESSES`. */
export type ServedAddresses = TypeOf<typeof SERVED_ADDRESSES>;

/** A rule of another program that drops packets to or from served addresses. */
const RULE_IN_THE_WAY = record({
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
const EXAMINATION = oneOf("settings", "everything");

/** See `EXAMINATION`. */
export type PathExamination = TypeOf<typeof EXAMINATION>;

/** The longest detail of an answer that is passed on. */
const LONGEST_DETAIL = 400;

function shortened<T extends { readonly detail: string }>(answers: readonly T[] | undefined): readonly T[] | undefined {
  return answers?.map((answer) => ({ ...answer, detail: answer.detail.slice(0, LONGEST_DETAIL) }));
}

const findings = validElements(PATH_FINDING), rules = validElements(RULE_IN_THE_WAY);

/** Examines the kernel for reasons why packets may not flow. */
export const examine: AnsweredCall<PathExamination, readonly PathFinding[]> = {
  name: "examine",
  request: EXAMINATION,
  checked: (answer) => shortened(findings(answer)),
  handle: async ({ options }, what) => (await import("./worker/examine.ts")).examinePath(options, what),
};

/** Looks for rules of other programs that drop packets to or from these addresses. */
export const rulesInTheWay: AnsweredCall<ServedAddresses, readonly RuleInTheWay[]> = {
  name: "rulesInTheWay",
  request: SERVED_ADDRESSES,
  checked: (answer) => shortened(rules(answer)),
  handle: async ({ options }, served) => (await import("./worker/served_reach.ts")).findRulesInTheWay(options, served),
};
