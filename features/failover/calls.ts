import { type AttemptCounts, type Attempts, type GoneEndpoint, isNothing } from "../../core/model/mod.ts";
import { ifValid, isCount, isHostPort, isText, list, record } from "../../platform/checks/mod.ts";
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

const isGone = list(record<GoneEndpoint>({ endpoint: isHostPort, frontends: list(isHostPort) }));

/** Resets the connections of dead endpoints at their next packets. */
export const resetGone: AnsweredCall<readonly GoneEndpoint[], undefined> = {
  name: "resetGone",
  isRequest: (value): value is readonly GoneEndpoint[] => isGone(value),
  checked: () => undefined,
  handle: async ({ backend }, gone) => void await backend.resetGone?.(gone),
};
