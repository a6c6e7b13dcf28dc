import type { Clock, Logger } from "../../platform/mod.ts";
import type { TlsFiles, WireAddress } from "../address/mod.ts";
import type { Limits } from "./limits.ts";
import type { Tally } from "./metrics.ts";

/** The names that a client certificate must have, in addition to being signed by the server's CA. Plain data. */
export interface ClientRule {
  /** One of these common names. */
  readonly names: readonly string[];
  /** This organization; any if undefined. */
  readonly organization: string | undefined;
}

/** The settings of a server, the same in each of its isolates. Plain data. */
export interface ServerSettings {
  readonly address: WireAddress;
  /** Without it, nothing is encrypted and every client that can connect may watch. */
  readonly tls: TlsFiles | undefined;
  /** The rule for client certificates; undefined admits all that the CA has signed. */
  readonly clients: ClientRule | undefined;
  readonly limits: Limits;
}

/** The state that the parts of a server in one isolate share. */
export interface ServerContext {
  readonly limits: Limits;
  /** Counts the connections and calls of all isolates, which the limits apply to. */
  readonly tally: Tally;
  readonly clock: Clock;
  readonly logger: Logger;
}
