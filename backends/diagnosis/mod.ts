/**
 * Looks in the kernel for reasons why packets of services may not flow, for the canary. Loaded at the first examination.
 *
 *   examine.ts          reads the kernel as far as asked, and judges it
 *   settings.ts         forwarding, the connection tracking table, reverse path filtering
 *   chains.ts           chains of other programs that drop packets
 *   nft_chains.ts       reads them from nft
 *   iptables_chains.ts  reads them from iptables-save
 *
 * In: a family. Out: findings. May run: sysctl, nft, iptables-save; changes nothing.
 */
export { examinePath } from "./examine.ts";
