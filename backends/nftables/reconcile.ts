import { type FamilySettings, nodePortOf, type ServicePortKey } from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import {
  createAccumulator,
  createReconciler,
  createRefusals,
  createSpellings,
  type Reconciler,
  type Spellings,
  type Target,
} from "../reconcile/mod.ts";
import { type NftSession, type RulesetGeneration, unlessUnchanged } from "../tools/mod.ts";
import { NO_COUNTS, type TransactionContext, writeDirty } from "./write.ts";
import { contributionOf, type Desired, mayBelongTo } from "./desired.ts";
import { createEarlierClients } from "./other_proxies.ts";
import { LAST_BASE_CHAIN } from "./frame.ts";
import { createOverdue } from "./overdue.ts";
import { compare, type Comparison, type RealizedState, udpFrontendsOf } from "./realized.ts";
import { declaredSets } from "./sets.ts";
import type { Dialect } from "./table.ts";
import type { ChainHandles } from "./listing.ts";
import { chainsInTable, chainsShown, type NftTools } from "./tools.ts";
import { chainLines, itemId, type Listing, parseItemId } from "./transaction.ts";

/**
 * Brings the kernel's table to the desired state. Between two listings, a comparison reads only the chains, which detects a
 * table that was deleted or replaced. Only a listing shows that chains have lost their rules, as after `nft flush table`.
 */
export interface TableReconciler extends Reconciler<RealizedState, ServicePortKey> {
  /** Marks service ports whose parts of the table may differ from the kernel's, and ends their refusals. */
  touch(keys: ReadonlySet<ServicePortKey>): void;
  /** Whether the table is missing or has no chain. Throws if the kernel cannot be read. */
  isBlank(): Promise<boolean>;
  /** Whether the kernel has all chains that it is known to have, and none of them was replaced. Throws if it cannot be read. */
  hasAllChains(): Promise<boolean>;
  /** The counts since the last call. */
  takeCounts(): typeof NO_COUNTS & { readonly drift_repaired: number };
}

/** The maximum number of transactions that one run may spend on the search for refused changes. */
const SEARCH_LIMIT = 200;

/** A reconciler that has not read the kernel yet. */
export function createTableReconciler(
  { clock, looks, generation, ...options }: Pick<TransactionContext, "desired" | "tools" | "dialect" | "logger"> & {
    readonly clock: Clock;
    readonly generation?: RulesetGeneration;
    /** Lists with handles (`nft -a`), for the checks between comparisons. */
    readonly looks: NftSession;
  },
): TableReconciler {
  const { desired, tools, dialect, logger } = options;
  const refusals = createRefusals<ServicePortKey>(logger);
  const counts = createAccumulator(() => ({ ...NO_COUNTS }));
  const dirty = new Set<ServicePortKey>();
  const spellings = createSpellings<string>();
  const chains = createChainWatch(looks, tools, dialect);
  const context: TransactionContext = {
    ...options,
    clock,
    overdue: createOverdue(),
    earlierClients: createEarlierClients(tools),
    refusals,
    counts,
    dirty,
    invalidate: () => reconciler.invalidate(),
  };

  const target: Target<RealizedState, ServicePortKey> = {
    async list(before, isFirst) {
      const settings = settingsOf(desired);
      chains.beginAgain();
      const table = await tools.readTable(), listing = table?.items;
      const udpFrontends = isFirst && listing ? udpFrontendsOf(listing, dialect) : undefined;
      spellings.begin();
      if (listing) respell(listing, before, spellings, dialect);
      // The chain is created again: restored once more, the same copy would have the same handles.
      if (chains.takeReplaced()) listing?.get("chain")?.set(LAST_BASE_CHAIN, "");
      const comparison = compare(table, desired, settings, dialect, isFirst);
      const pending = dirty.union(new Set(refusals.keys()));
      const drifted = before ? countDrift(comparison, before, pending, desired, dialect) : 0;
      dirty.clear();
      for (const key of comparison.incomplete) if (!refusals.has(key)) dirty.add(key);
      return { realized: comparison.realized, drifted, udpFrontends };
    },
    glance: async (realized) => await chains.hasAll(realized) ? 0 : undefined,
    write: (realized, run) => writeDirty({ ...context, realized, run, settings: settingsOf(desired) }),
    retry(keys) {
      for (const key of keys) dirty.add(key);
    },
    async confirm() {
      if (!spellings.areInQuestion()) return 0;
      const table = await tools.readTable();
      return spellings.confirm((id) => table?.items.get("chain")?.get(parseItemId(id).key));
    },
  };
  const reconciler = createReconciler({ target, refusals, searchLimit: SEARCH_LIMIT, clock, generation });

  return {
    ...reconciler,
    hasAllChains: unlessUnchanged(generation, async () => {
      const realized = reconciler.realized();
      return realized === undefined || await chains.hasAll(realized);
    }),
    touch(keys) {
      refusals.forget(keys);
      for (const key of keys) dirty.add(key);
    },
    isBlank: async () => (await chainsInTable(tools)).size === 0,
    takeCounts: () => ({ ...counts.take(), drift_repaired: reconciler.takeDrifted() }),
  };
}

/** Watches the chains of the table between listings. */
function createChainWatch(looks: NftSession, tools: NftTools, dialect: Dialect) {
  /** The chains at the last check since the table was listed, and whether that found replaced ones. */
  const state: { handles: ChainHandles; isReplaced: boolean } = { handles: new Map(), isReplaced: false };
  const isSame = (there: ChainHandles) =>
    there.entries().every(([name, handle]) => (state.handles.get(name) ?? handle) === handle);
  return {
    /** Whether the kernel has all known chains, and the same ones: another program may restore an earlier copy. */
    async hasAll({ chains }: RealizedState): Promise<boolean> {
      const names = [...chains.keys()];
      // The long-running nft can only confirm that all is well: its listing may be cut off.
      const shown = names.length > 0 ? await chainsShown(looks, dialect, names) : undefined;
      const there = shown && isSame(shown) ? shown : await chainsInTable(tools);
      state.isReplaced = !isSame(there);
      if (state.isReplaced) return false;
      state.handles = there;
      return names.every((name) => there.has(name));
    },
    /** Forgets the chains: the table is listed now. */
    beginAgain: () => void (state.handles = new Map()),
    /** Whether the last check since the last call found replaced chains. */
    takeReplaced(): boolean {
      const { isReplaced } = state;
      state.isReplaced = false;
      return isReplaced;
    },
  };
}

function settingsOf(desired: Desired): FamilySettings {
  const settings = desired.settings();
  if (!settings) throw new Error("there are no settings before the first full snapshot");
  return settings;
}

/** Counts the drift: differences in parts that were in effect and had no pending or refused change. */
function countDrift(
  { realized, incomplete }: Comparison,
  before: RealizedState,
  pending: ReadonlySet<ServicePortKey>,
  desired: Desired,
  dialect: Dialect,
): number {
  const ports = [...pending.intersection(incomplete)].map((key) => desired.servicePort(key)!);
  const isPending = mayBelongTo(ports, dialect);
  let count = realized.strays.filter((item) => item.list !== "set" && !isPending(item)).length;
  for (const key of incomplete) if (before.applied.has(key) && !pending.has(key)) count++;
  for (const [name, text] of before.chains) if (realized.chains.get(name) !== text) count++;
  return count;
}

/**
 * Puts the texts as they were written into a listing, where this host's nft prints them differently, and notes the chains that
 * may only read differently, by the realized state before the listing.
 */
function respell(
  listing: Listing,
  before: RealizedState | undefined,
  spellings: Spellings<string>,
  dialect: Dialect,
): void {
  // A set cannot be changed in place: if it reads differently from how it was created, that is a spelling.
  if (before && !before.isDifferent && before.missingSets.size === 0) {
    for (const [key, text] of declaredSets({ countTraffic: true, countsAttempts: true }, dialect)) {
      const read = listing.get("set")!.get(key);
      if (read !== undefined && read !== text) spellings.learn(itemId({ list: "set", key }), text, read);
    }
  }
  for (const [key, text] of before ? chainTexts(before, dialect) : []) {
    const read = listing.get("chain")!.get(key), id = itemId({ list: "chain", key });
    if (read === text) spellings.forget(id);
    if (read === undefined || chainLines(read).length !== chainLines(text).length) continue;
    if (spellings.asWritten(id, read) !== text) spellings.question(id, text, read);
  }
  for (const list of ["set", "chain"] as const) {
    const texts = listing.get(list)!;
    for (const [key, read] of texts) texts.set(key, spellings.asWritten(itemId({ list, key }), read));
  }
}

/** The texts of all chains of a realized state. */
function* chainTexts(realized: RealizedState, dialect: Dialect): Generator<readonly [string, string]> {
  yield* realized.chains;
  for (const { port, settings } of realized.applied.values()) {
    if (port.affinitySeconds === 0 && nodePortOf(port)?.destinations === undefined) continue;
    for (const { list, key, text } of contributionOf(port, settings, dialect).own) {
      if (list === "chain") yield [key, text];
    }
  }
}
