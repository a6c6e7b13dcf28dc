/** The calls of all features. A worker and its caller load it, but not the rest of a feature. */
import { examine, rulesInTheWay } from "./canary/calls.ts";
import type { AnsweredCall } from "./contract.ts";
import { readAttempts, resetGone } from "./failover/calls.ts";
import { readConnections } from "./connection_weights/calls.ts";
import { notify } from "./systemd/calls.ts";

/** The calls that features have added to those of every worker. */
export const FEATURE_CALLS: readonly AnsweredCall[] = [
  examine,
  rulesInTheWay,
  readAttempts,
  resetGone,
  readConnections,
  notify,
];
