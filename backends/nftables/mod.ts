/**
 * The nftables backend: the services of a family as elements of sets and maps in one table, in the order in which a change
 * becomes elements:
 *
 *   mode.ts             the description of the mode
 *   backend.ts          sync, resync, cleanup and the features of the host, with the parts below; loaded on first use
 *   table.ts            the table, and what rules consist of, as nft prints it
 *   sets.ts             the sets and maps, each declared once
 *   counters.ts         the rules that count traffic and connection attempts
 *   hashes.ts           numbers of pairs, frontends and clients, as the kernel hashes them
 *   traffic_reader.ts   reads the counters of traffic; loaded only if it is counted
 *   frame.ts            the fixed chains: dispatch, rejections, source ranges, masquerading
 *   shared_chains.ts    the chains that service ports share
 *   sources.ts          source ranges: their elements, and the chains that look for these
 *   affinity.ts         session affinity: the clients as elements, and the chains that look for them
 *   desired.ts          the desired state, and everything in the table that one service port needs
 *   slots.ts            the slots of endpoints: how one is drawn, and which endpoint keeps which, so that its change is one element
 *   realized.ts         the realized state: the table as nft lists it, assigned to service ports
 *   build.ts            builds one transaction, and its effect on the realized state
 *   transaction.ts      chains, sets and elements as one kind of item, and a transaction of them, as data and as input of nft
 *   earlier_clients.ts  the clients of kube-proxy, which keep their endpoints
 *   apply.ts            the transactions of one write, cut into batches, and the search for refused changes
 *   reconcile.ts        the target of the shared reconciler
 *   resets.ts           the table that resets connections to dead endpoints, beside this and other modes
 *   tools.ts            calls of nft, in a session or a process each, and their failures
 *
 * In: deltas of one family. Out: one table in the kernel, problems, figures. May run: nft, conntrack.
 */
import { DESCRIPTION } from "./mode.ts";

/** The registry entry of nftables mode. */
export const NFTABLES_MODE = {
  description: DESCRIPTION,
  load: async () => (await import("./backend.ts")).NFTABLES_CODE,
};

/** Loads the wrapper that resets connections to dead endpoints, for all modes whose connections conntrack translates. */
export const loadResets = async (): Promise<typeof import("./resets.ts").withResets> =>
  (await import("./resets.ts")).withResets;
