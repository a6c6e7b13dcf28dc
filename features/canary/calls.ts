import * as shape from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";
import {
  EXAMINATION,
  PATH_FINDING,
  type PathExamination,
  type PathFinding,
  RULE_IN_THE_WAY,
  type RuleInTheWay,
  SERVED_ADDRESSES,
  type ServedAddresses,
} from "./path_findings.ts";

const LONGEST_DETAIL = 400;

function shortened<T extends { readonly detail: string }>(answers: readonly T[] | undefined): readonly T[] | undefined {
  return answers?.map((answer) => ({ ...answer, detail: answer.detail.slice(0, LONGEST_DETAIL) }));
}

const findings = shape.validElements(PATH_FINDING), rules = shape.validElements(RULE_IN_THE_WAY);

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
