/**
 * The iptables backend, which userspace mode shares: the services of a family as chains of the nat and filter tables. The
 * files of backends/xtables read and write the chains; these render them:
 *
 *   mode.ts             the description of the mode
 *   backend.ts          sync, resync and cleanup, with the parts below; loaded on first use
 *   service_chains.ts   the chains of one service port: choice of an endpoint, external traffic, source ranges
 *   frontends.ts        the rules that send packets to those chains, reject or drop them
 *   dispatch.ts         the tree that finds such a rule in a few dozen steps
 *   ruleset.ts          the desired state: all chains, and which of them a change affects
 *   traffic_reader.ts   counters of traffic; loaded only if it is counted
 *
 * In: deltas of one family. Out: rules in the kernel, problems, counts. May run: the tools of iptables, conntrack, sysctl.
 */
import { DESCRIPTION } from "./mode.ts";

/** Loads the backend. */
export const loadIptables = (): Promise<typeof import("./backend.ts")> => import("./backend.ts");

/** The registry entry of iptables mode. */
export const IPTABLES_MODE = {
  description: DESCRIPTION,
  load: async () => (await loadIptables()).IPTABLES_CODE,
};
