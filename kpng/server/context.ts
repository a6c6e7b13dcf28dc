import type { Clock, Logger } from "../../platform/mod.ts";
import type { Limits } from "./limits.ts";
import type { Tally } from "./metrics.ts";

/** The state that the parts of a server in one isolate share. */
export interface ServerContext {
  readonly limits: Limits;
  /** Counts the connections and calls of all isolates, which the limits apply to. */
  readonly tally: Tally;
  readonly clock: Clock;
  readonly logger: Logger;
}
