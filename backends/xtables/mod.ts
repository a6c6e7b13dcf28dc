/**
 * Chains of iptables, for iptables mode and for the few rules of IPVS mode:
 *
 *   chain_names.ts    names of chains (kube-proxy's)
 *   matches.ts        parts of rules, as iptables-save prints them
 *   layout.ts         the chains and jumps of a mode in the kernel's tables
 *   base_chains.ts    the fixed chains and rules of iptables mode, some of which IPVS mode shares
 *   martians.ts       the rule that protects loopback addresses, and the kernel setting that needs it
 *   wanted_chains.ts  the desired state: all chains of a mode, rendered on demand
 *   shadow.ts         the realized state, read with iptables-save
 *   text_hash.ts      hashes that stand for the rules of a chain
 *   spellings.ts      chains that iptables-save prints differently from how they were written
 *   batches.ts        the difference between both states, cut into inputs
 *   restore.ts        an input, as data and as text of iptables-restore
 *   apply.ts          the restores of one write, and the search for refused changes
 *   reconcile.ts      the target of the shared reconciler
 *   tools.ts          calls of iptables-restore, iptables-save and iptables, and the classification of failures
 *   host.ts           features of the host's iptables
 *   cleanup.ts        removal of all traces
 *
 * In: desired chains. Out: inputs of iptables-restore, problems, figures. May run: the tools of iptables.
 */
export {
  acceptRules,
  type BaseOptions,
  baseRules,
  IPTABLES_LAYOUTS,
  markRules,
  masquerade,
  masqueradeRules,
  USERSPACE_LAYOUTS,
} from "./base_chains.ts";
export type { AroundRestore, RestoredChain } from "./apply.ts";
export {
  affinityListName,
  BASE,
  namesBeside,
  type ServiceChainNames,
  serviceChainNames,
  type Table,
  TABLES,
} from "./chain_names.ts";
export { removeIptablesTraces, removeTracesOfOtherVariant } from "./cleanup.ts";
export { examineHost, type Host } from "./host.ts";
export { jump, type Layout, NO_LAYOUT } from "./layout.ts";
export { ROUTE_LOOPBACK, withMartians, writeHostSettings } from "./martians.ts";
export { comment, destinationPort, localMatch, LOOPBACK, oneOf, shareOf } from "./matches.ts";
export { createReconciler, type Reconciler } from "./reconcile.ts";
export { createIptablesTools, type Flavour, type IptablesTools } from "./tools.ts";
export type { ChainsByTable, RenderedChain, WantedChains } from "./wanted_chains.ts";
