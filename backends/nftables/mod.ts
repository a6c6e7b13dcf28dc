/**
 * The nftables backend: the services of a family as elements of sets and maps in one table, in the order in which a change
 * becomes elements:
 *
 *   mode.ts             the description of the mode
 *   backend.ts          sync, resync, cleanup and the features of the host, with the parts below; loaded on first use
 *   table.ts            the names of the tables, and what rules consist of, as nft prints it
 *   sets.ts             the sets and maps, each declared once
 *   frame.ts            the fixed chains: dispatch, rejections, masquerading
 *   counters.ts         the rules that count traffic and connection attempts
 *   hashes.ts           numbers of pairs, frontends and clients, as the kernel hashes them
 *   endpoints.ts        the slots of endpoints: how one is drawn, and which endpoint keeps which, so that its change is one element
 *   sources.ts          source ranges: their elements, and the chains that look for these
 *   affinity.ts         session affinity: the clients as elements, and the chains that look for them
 *   desired.ts          the desired state: everything in the table that one service port needs, and what they share
 *   transaction.ts      chains, sets and elements as one kind of item, a transaction of them, and statements of nft for any table
 *   listing.ts          the lines of listings, as versions of nft print them
 *   realized.ts         the realized state: a listing of the table, assigned to service ports
 *   write.ts            one write: its batches, their transactions and effects, and the search for refused changes
 *   reconcile.ts        the target of the shared reconciler
 *   tools.ts            calls of nft, in a session or a process each, and their failures
 *   other_proxies.ts    what other proxies serve, and the clients of kube-proxy, which keep their endpoints
 *   traffic_reader.ts   reads the counters of traffic; loaded only if it is counted
 *   open_connections.ts the table that counts open connections, for `least-connections`; loaded only if they are counted
 *   resets.ts           the table that resets connections to dead endpoints, beside this and other modes
 *
 * In: deltas of one family. Out: one table in the kernel, problems, counts. May run: nft, conntrack.
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
