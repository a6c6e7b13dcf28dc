/**
 * The IPVS backend: a family's services as virtual servers of the kernel, and the sets, addresses and rules that they
 * need. In the order in which a change reaches the kernel:
 *
 *   virtual_servers.ts   virtual and real servers, the operations on them, and their text for ipvsadm
 *   sets.ts              the sets, by kube-proxy's names
 *   contribution.ts      everything that one service port needs in the kernel
 *   ledger.ts            desired objects, and where the kernel differs from them
 *   desired.ts           the desired state that deltas build up, in ledgers
 *   pending.ts           the differences of a ledger, without what the kernel refuses
 *   termination.ts       graceful termination of real servers
 *   ipvsadm.ts, ipset.ts, dummy_interface.ts       the tools, one call for all changes
 *   server_sync.ts, set_sync.ts, address_sync.ts   each brings one ledger to the kernel
 *   rules.ts             the few rules of iptables that use the sets
 *   reconcile.ts         runs all of these in an order that loses no packet
 *   describe.ts          a contribution in words, for `explain`
 *   host.ts              checks whether the host can serve, and configures it
 *   cleanup.ts           removes all traces
 *   traffic_reader.ts    counters of traffic; loaded only if it is counted
 *   backend.ts           sync, resync and cleanup with these parts
 *   mode.ts              the description of the mode, which loads all of these late
 *
 * In: deltas of a family. Out: virtual servers, sets, addresses and rules, and what the kernel refused. May touch: the
 * tools ipvsadm, ipset, ip and those of iptables.
 *
 * The only export is the description of the mode, which loads the backend late.
 */
export { IPVS_MODE } from "./mode.ts";
