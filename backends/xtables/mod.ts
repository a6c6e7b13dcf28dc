/**
 * Chains of iptables, for iptables mode and for the few rules of IPVS mode: read by iptables-save, written by iptables-restore,
 * kept to what is wanted.
 *
 * In: wanted chains. Out: restores, and what the kernel refused. May run: the tools of iptables.
 */
export {
  acceptRules,
  type BaseOptions,
  baseRules,
  IPTABLES_LAYOUTS,
  markRules,
  masquerade,
  masqueradeRules,
} from "./base_chains.ts";
export {
  affinityListName,
  BASE,
  namesBeside,
  type ServiceChainNames,
  serviceChainNames,
  type Table,
  TABLES,
} from "./chain_names.ts";
export { removeIptablesTraces } from "./cleanup.ts";
export { examineHost, type Host } from "./host.ts";
export { jump, type Layout, NO_LAYOUT } from "./layout.ts";
export { writeHostSettings } from "./loopback.ts";
export { ROUTE_LOOPBACK, withMartians } from "./martians.ts";
export { comment, destinationPort, localMatch, LOOPBACK, oneOf } from "./matches.ts";
export { createReconciler, type Reconciler } from "./reconcile.ts";
export { createIptablesTools, type IptablesTools } from "./tools.ts";
export type { ChainsByTable, RenderedChain, WantedChains } from "./wanted_chains.ts";
