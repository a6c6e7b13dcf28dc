/**
 * Chains of iptables, for iptables mode and for the few rules of IPVS mode:
 *
 *   chains.ts       names of chains (kube-proxy's), the layout of a mode, and the desired chains, rendered on demand
 *   matches.ts      parts of rules, as iptables-save prints them
 *   base_chains.ts  the fixed chains and rules of iptables mode, some of which IPVS mode shares
 *   martians.ts     the rule that protects loopback addresses, and the kernel setting that needs it
 *   realized.ts     the realized state, read with iptables-save, as hashes of rules, and chains spelled differently
 *   apply.ts        the difference between both states, cut into restores, and the search for refused changes
 *   reconcile.ts    the target of the shared reconciler
 *   tools.ts        the tools of iptables, the input of a restore, and the classification of failures
 *   host.ts         features of the host's iptables
 *   cleanup.ts      removal of all traces
 *
 * In: desired chains. Out: inputs of iptables-restore, problems, counts. May run: the tools of iptables.
 */
export * from "./base_chains.ts";
export type { AroundRestore, RestoredChain } from "./apply.ts";
export * from "./chains.ts";
export * from "./cleanup.ts";
export * from "./host.ts";
export { martianRules, noteRouting, routeLoopback, withMartians, writeHostSettings } from "./martians.ts";
export { comment, destinationPort, localMatch, LOOPBACK, oneOf, shareOf } from "./matches.ts";
export { type ChainReconciler, createChainReconciler } from "./reconcile.ts";
export { createIptablesTools, type Flavour, type IptablesTools, packetsOf } from "./tools.ts";
