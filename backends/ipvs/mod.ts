/**
 * The IPVS backend: a family's services as virtual servers of the kernel, in the order in which a change gets there:
 *
 *   virtual_servers.ts   virtual and real servers, and how ipvsadm writes them
 *   sets.ts              the sets, by kube-proxy's names
 *   contribution.ts      everything that is in the kernel because of one service port
 *   ledger.ts            what is wanted, and where the kernel holds something else
 *   desired.ts           what the deltas have led to, in ledgers
 *   difference.ts        what brings a virtual server from one state to another
 *   termination.ts       real servers that go when their connections have ended
 *   refusals.ts          what the kernel refuses
 *   ipvsadm.ts, ipset.ts, dummy_interface.ts   the operations, each over one call of its tool
 *   server_sync.ts, set_sync.ts, address_sync.ts   one ledger each, brought to the kernel
 *   rules.ts             the few rules of iptables that use the sets
 *   reconcile.ts         all of it together, in the order in which nothing is missed
 *   describe.ts          what there is for one service port, for people
 *   host.ts              whether the host can do this, and what it is set to
 *   cleanup.ts           how every trace is removed
 *   backend.ts           sync, resync and cleanup, with these parts
 */
export { createIpvsBackend } from "./backend.ts";
export { removeIpvsTraces } from "./cleanup.ts";
export { examineHost } from "./host.ts";
export { createSets } from "./ipset.ts";
export { createVirtualServers } from "./ipvsadm.ts";
export { IPVS_LAYOUT } from "./rules.ts";
