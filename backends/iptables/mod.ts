/**
 * The iptables backend, which userspace mode shares: the services of a family as chains of the nat and filter tables. The files of backends/xtables read
 * and write the chains; these render them:
 *
 *   service_chains.ts  the chains of one service port: choice of an endpoint, external traffic, source ranges
 *   frontends.ts       the rules that send packets to those chains, reject or drop them
 *   dispatch.ts        the tree that finds such a rule in a few dozen steps
 *   ruleset.ts         the desired state: all chains, and which of them a change affects
 *   tcp_liberal.ts     whether the kernel accepts out-of-window packets
 *   backend.ts         sync, resync and cleanup, with these parts
 *   describe.ts        the rules of one service port, for explain
 *   packet_counts.ts   counters of rules, for metrics
 *   rule_counts.ts     what a rule with a counter counts
 *   traffic_reader.ts  counters of traffic; loaded only if it is counted
 *   mode.ts            the description of the mode, which loads the backend on first use
 *
 * In: deltas of one family. Out: rules in the kernel, problems, figures. May run: the tools of iptables, conntrack, sysctl.
 */
export { IPTABLES_MODE, loadIptables } from "./mode.ts";
