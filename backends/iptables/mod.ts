/**
 * The iptables backend: a family's services as chains of the nat and filter tables, in the order in which a change
 * becomes rules:
 *
 *   chain_names.ts     what chains are called (kube-proxy's names, and those of the dispatch tree)
 *   matches.ts         the pieces of a rule, spelled as iptables-save prints them
 *   martians.ts        packets to loopback addresses that come from elsewhere
 *   loopback.ts        the kernel's setting by which they arrive, made where no sync has written rules
 *   base_chains.ts     what is there however few services: entry points, marking, masquerading, forwarding
 *   service_chains.ts  the chains of one service port: choice of an endpoint, external traffic, source ranges
 *   frontends.ts       the rules that lead to them, and those that reject or drop
 *   dispatch.ts        the tree that finds such a rule in a few dozen steps
 *   ruleset.ts         all of it together: what the kernel should hold, and which chains a change touches
 *   shadow.ts          what the kernel holds, as far as is known, read with iptables-save
 *   batches.ts         what is to be written and removed, cut into inputs
 *   restore.ts         an input as text of iptables-restore, and whose line it complains about
 *   reconcile.ts       the restores of a sync: in batches, and without what the kernel refuses
 *   backend.ts         sync, resync and cleanup, with these parts
 *   describe.ts        the rules of one service port, for people who ask
 *   packet_counts.ts   what rules have counted, for the metrics
 *   cleanup.ts         how every trace is removed
 */
export { createIptablesBackend } from "./backend.ts";
