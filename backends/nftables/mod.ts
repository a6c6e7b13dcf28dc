/**
 * The nftables backend: the services of a family as elements of sets and maps in one table, in the order in which a change
 * becomes elements:
 *
 *   table.ts         the table, its sets and maps, and the keywords of nft for each family
 *   statements.ts    parts of rules, as nft prints them
 *   failures.ts      the counters of connection attempts
 *   gone.ts          endpoints whose connections are reset
 *   base_chains.ts   the fixed chains: dispatch, rejections, source ranges, masquerading
 *   pick_chains.ts   the chains that services share, by kind of traffic and number of endpoints
 *   affinity.ts      the chains and sets of a service port with session affinity
 *   contribution.ts  everything in the table that one service port needs
 *   desired.ts       the desired state: service ports and settings
 *   listing.ts       the table, as nft lists it
 *   shadow.ts        the realized state: a listing, assigned to service ports
 *   spellings.ts     texts that nft prints differently from how they were written
 *   batches.ts       the difference between both states, cut into transactions
 *   plan.ts          one transaction, and its effect on the shadow
 *   transaction.ts   a transaction, as data and as input of nft
 *   apply.ts         the transactions of one write, and the search for refused changes
 *   reconcile.ts     the target of the shared reconciler
 *   session.ts       a long-running nft for short transactions
 *   tools.ts         calls of nft, and the classification of its failures
 *   backend.ts       sync, resync and cleanup, with these parts
 *   describe.ts      the parts of the table of one service port, for explain
 *   host.ts          features of the host's nft and kernel
 *   cleanup.ts       removal of the tables
 *   mode.ts          the description of the mode, which loads the backend on first use
 *
 * In: deltas of one family. Out: one table in the kernel, problems, figures. May run: nft, conntrack.
 */
export { NFTABLES_MODE } from "./mode.ts";
