import { boolean, duration, integer, type OptionsOf, section } from "../../platform/schema/mod.ts";

const SHORTEST = { from: 50 };

/** The settings of failover. */
export const FIELDS = {
  failover: section({
    endpointFailureDetection: boolean(),
    /** How often connection attempts are read. */
    interval: duration(150, SHORTEST),
    /** The number of attempts in a row without an answer that makes an endpoint a suspect, */
    attempts: integer(3, { from: 1, to: 1_000 }),
    /** and the time for which it must not have answered any, counted from the reading that first showed one. */
    silence: duration(150, SHORTEST),
    /** The number of times that a suspect is probed, and how long all of them wait for an answer. */
    probes: integer(5, { from: 1, to: 10 }),
    probeTimeout: duration(300, SHORTEST),
    /** A second port that is probed: on a live node, the kubelet accepts the connection, or a pod refuses it. */
    livenessPort: integer(10250, { from: 1, to: 65_535 }),
    /** How often an endpoint that was left out is probed, and how many answers in a row it needs to be used again. */
    recoveryInterval: duration(1_000, SHORTEST),
    recoveryProbes: integer(2, { from: 1, to: 16 }),
    /** When an endpoint that was left out is tried again, regardless of its probes; twice as long each time. */
    trialInterval: duration(60_000, SHORTEST),
    /** Needs the API server as the source: another one may not tell terminating endpoints from others. */
    resetGoneConnections: boolean(true),
  }),
};

/** The options of failover. */
export type FailoverOptions = OptionsOf<typeof FIELDS>["failover"];
