/**
 * The IPVS backend: a family's services as virtual servers of the kernel, and the sets, addresses and rules that they
 * need. In the order in which a change reaches the kernel:
 *
 *   mode.ts             the description of the mode
 *   backend.ts          checks the host; sync, resync and cleanup with the parts below; loaded on first use
 *   desired.ts          the desired state that deltas build up, and everything that one service port needs in the kernel
 *   ledger.ts           desired objects, and where the kernel differs from them
 *   virtual_servers.ts  virtual and real servers, as data and as text of ipvsadm
 *   sets.ts             the sets, by kube-proxy's names, as data and as text of ipset
 *   addresses.ts        the services' addresses: on the dummy interface, or held without it for open connections
 *   server_sync.ts      brings the ledger of virtual servers to the kernel
 *   rules.ts            the few rules of iptables that use the sets
 *   reconcile.ts        runs all of these in an order that loses no packet
 *   traffic_reader.ts   counters of traffic; loaded only if it is counted
 *   departure.ts        what another mode will do differently on this node; loaded by `sluice check` alone
 *   leftovers.ts        finds what the mode has in the kernel, and removes it: at once, or after a takeover as its connections end
 *
 * In: deltas of a family. Out: virtual servers, sets, addresses and rules, and what the kernel refused. May touch: the tools
 * ipvsadm, ipset and ip, and the tools of iptables.
 */
import { DESCRIPTION } from "./mode.ts";

/** The registry entry of IPVS mode. */
export const IPVS_MODE = {
  description: DESCRIPTION,
  load: async () => (await import("./backend.ts")).IPVS_CODE,
};
