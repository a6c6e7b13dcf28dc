/**
 * The nftables backend: a family's services as elements of sets and maps in one table, in the order in which a change
 * becomes elements:
 *
 *   table.ts         the table, its sets and maps, and how nft speaks of each family
 *   statements.ts    the pieces of a rule, spelled as nft prints them
 *   base_chains.ts   what is there however few services: dispatch, refusals, source ranges, masquerading
 *   pick_chains.ts   the chains that services share, by kind of traffic and number of endpoints
 *   affinity.ts      the chains and sets of a service port whose clients stay with their endpoints
 *   contribution.ts  everything in the table that is there because of one service port
 *   desired.ts       the service ports and settings that deltas have led to
 *   listing.ts       what the kernel's table reads as
 *   shadow.ts        what of it belongs to whom, and what to nobody
 *   spellings.ts     what this host's nft prints in other words than they are written here
 *   plan.ts          what one transaction has to do, and what is known when it has gone through
 *   transaction.ts   a transaction as input of nft
 *   batches.ts       what is to change, cut into what goes into one transaction each
 *   reconcile.ts     the transactions of a sync: in batches, and taken apart where the kernel refuses something
 *   backend.ts       sync, resync and cleanup, with these parts
 *   describe.ts      what is in the table for one service port, for people who ask
 *   host.ts          whether nft and the kernel can do all this
 *   cleanup.ts       how the tables are removed
 */
export { createNftablesBackend } from "./backend.ts";
export { removeKubeProxyTable, removeNftablesTraces } from "./cleanup.ts";
export { examineHost } from "./host.ts";
