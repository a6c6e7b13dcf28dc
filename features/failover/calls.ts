import { type AttemptCounts, type Attempts, isNothing } from "../../core/model/mod.ts";
import { ifValid, isCount, isText, record } from "../../platform/checks/mod.ts";
import type { AnsweredCall } from "../contract.ts";

const areAttempts = record<Attempts>({ made: isCount, answered: isCount });

function isCounts(value: unknown): value is AttemptCounts {
  return value instanceof Map && value.entries().every(([endpoint, one]) => isText(endpoint) && areAttempts(one));
}

/** Reads the counted connection attempts. */
export const readAttempts: AnsweredCall<undefined, AttemptCounts> = {
  name: "readAttempts",
  isRequest: isNothing,
  checked: ifValid(isCounts),
  handle: ({ backend }) => backend.attemptCounts?.(),
};
