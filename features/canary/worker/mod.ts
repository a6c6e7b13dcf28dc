/**
 * Looks in the kernel for reasons why packets of services may not flow, in a family's worker. Loaded at the first
 * examination.
 *
 *   examine.ts          examines the kernel
 *   chains.ts           chains of other programs that drop packets, read from nft and iptables-save
 *   served_reach.ts     rules that drop packets to or from given addresses
 *
 * In: a family. Out: findings. May run: sysctl, nft, iptables-save; changes nothing.
 */
export { examinePath, findRulesInTheWay } from "./examine.ts";
