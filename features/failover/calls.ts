import { ATTEMPT_COUNTS, type AttemptCounts, GONE_ENDPOINT, type GoneEndpoint } from "../../core/model/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";

/** Reads the counted connection attempts. */
export const readAttempts: AnsweredCall<undefined, AttemptCounts> = {
  name: "readAttempts",
  request: shape.NOTHING,
  checked: shape.ifValid(ATTEMPT_COUNTS),
  handle: ({ backend }) => backend.attemptCounts?.(),
};

/** Resets the connections of dead endpoints at their next packets. */
export const resetGone: AnsweredCall<readonly GoneEndpoint[], undefined> = {
  name: "resetGone",
  request: shape.list(GONE_ENDPOINT),
  checked: () => undefined,
  handle: async ({ backend }, gone) => void await backend.resetGone?.(gone),
};
