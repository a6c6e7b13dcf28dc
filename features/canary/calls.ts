import {
  isBoolean,
  isCount,
  isPortNumber,
  isPrefix,
  isText,
  list,
  oneOf,
  optional,
  record,
  validElements,
} from "../../platform/checks/mod.ts";
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
export interface PathFinding {
  readonly cause: PathCause;
  /** The details in a sentence without its full stop. */
  readonly detail: string;
  /** Whether it stops the pods' packets in any case; otherwise it is only a suspect once packets stop. */
  readonly certain: boolean;
}

/** What rules of other programs are compared with: the addresses and ports of services and of this node's pods. */
export interface ServedAddresses {
  /** Canonical prefixes of one family. */
  readonly prefixes: readonly string[];
  /** The ports of services and endpoints at these addresses. */
  readonly ports: readonly number[];
  readonly nodePorts: readonly number[];
}

/** A rule of another program that drops packets to or from served addresses. */
export interface RuleInTheWay {
  /** Table, chain and rule, in a sentence without its full stop. */
  readonly detail: string;
  /** The packets that it has dropped; undefined if it does not count them. */
  readonly packets: number | undefined;
}

/**
 * How much to examine: `settings` reads the kernel settings that are certain to stop packets, which takes milliseconds;
 * `everything` also lists the chains of other programs.
 */
export type PathExamination = "settings" | "everything";

/** The longest detail of an answer that is passed on. */
const LONGEST_DETAIL = 400;

function shortened<T extends { readonly detail: string }>(answers: readonly T[] | undefined): readonly T[] | undefined {
  return answers?.map((answer) => ({ ...answer, detail: answer.detail.slice(0, LONGEST_DETAIL) }));
}

/** Causes become labels of metrics. */
const findings = validElements(record<PathFinding>({
  cause: oneOf(...PATH_CAUSES),
  detail: isText,
  certain: isBoolean,
}));
const rules = validElements(record<RuleInTheWay>({ detail: isText, packets: optional(isCount) }));

/** Examines the kernel for reasons why packets may not flow. */
export const examine: AnsweredCall<PathExamination, readonly PathFinding[]> = {
  name: "examine",
  isRequest: oneOf("settings", "everything"),
  checked: (answer) => shortened(findings(answer)),
  handle: async ({ options }, what) => (await import("./worker/examine.ts")).examinePath(options, what),
};

/** Looks for rules of other programs that drop packets to or from these addresses. */
export const rulesInTheWay: AnsweredCall<ServedAddresses, readonly RuleInTheWay[]> = {
  name: "rulesInTheWay",
  isRequest: record<ServedAddresses>({
    prefixes: list(isPrefix),
    ports: list(isPortNumber),
    nodePorts: list(isPortNumber),
  }),
  checked: (answer) => shortened(rules(answer)),
  handle: async ({ options }, served) => (await import("./worker/served_reach.ts")).findRulesInTheWay(options, served),
};
