import { type FamilySettings, nodePortOf, type ServicePortKey } from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import {
  createAccumulator,
  createReconciler,
  createRefusals,
  type Reconciler,
  SPELLING_REPAIRS,
  type Target,
} from "../reconcile/mod.ts";
import { type NftSession, type RulesetGeneration, unlessUnchanged } from "../tools/mod.ts";
import { NO_FIGURES, type TransactionContext, writeDirty } from "./apply.ts";
import { contributionOf, type Desired } from "./desired.ts";
import { createEarlierClients } from "./earlier_clients.ts";
import { LAST_BASE_CHAIN } from "./frame.ts";
import { type Listing, readTable, udpFrontendsOf } from "./listing.ts";
import { compare, type Comparison, type RealizedState } from "./realized.ts";
import { declaredSets } from "./sets.ts";
import type { Dialect } from "./table.ts";
import { type ChainHandles, chainsInTable, chainsShown, type NftTools } from "./tools.ts";
import { chainLines } from "./transaction.ts";

type CommonReconciler = Reconciler<RealizedState, ServicePortKey>;

/**
 * Brings the kernel's table to the desired state. Between two listings, a comparison reads only the chains, which detects a
 * table that was deleted or replaced. Only a listing shows that chains have lost their rules, as after `nft flush table`.
 */
export interface TableReconciler
  extends Pick<CommonReconciler, "run" | "compareAndRun" | "invalidate" | "problems" | "problemOf"> {
  /** Marks service ports whose parts of the table may differ from the kernel's, and ends their refusals. */
  touch(keys: ReadonlySet<ServicePortKey>): void;
  /** Whether the table is missing or has no chain. Throws if the kernel cannot be read. */
  isBlank(): Promise<boolean>;
  /** Whether the kernel has all chains that it is known to have, and none of them was replaced. Throws if it cannot be read. */
  hasAllChains(): Promise<boolean>;
  /** The figures since the last call. */
  takeFigures(): typeof NO_FIGURES & { readonly drift_repaired: number };
  /** The UDP frontends that the table served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
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
  const figures = createAccumulator(() => ({ ...NO_FIGURES }));
  const dirty = new Set<ServicePortKey>();
  const spellings = createSpellings(dialect);
  const earlierFrontends = createAccumulator<ReadonlySet<UdpFrontend>>(() => new Set());
  const chains = createChainWatch(looks, tools, dialect);
  let isFirst = true;
  const context: TransactionContext = {
    ...options,
    earlierClients: createEarlierClients(tools),
    refusals,
    figures,
    dirty,
    invalidate: () => reconciler.invalidate(),
  };

  const target: Target<RealizedState, ServicePortKey> = {
    async list(before) {
      const settings = settingsOf(desired);
      chains.beginAgain();
      let isDormant = false;
      const listing = await readTable(tools, () => isDormant = true);
      if (isFirst && listing) earlierFrontends.value = udpFrontendsOf(listing, dialect);
      spellings.translate(listing, before);
      // The chain is created again: restored once more, the same copy would have the same handles.
      if (chains.takeReplaced()) listing?.get("chain")?.set(LAST_BASE_CHAIN, "");
      const comparison = compare(listing, isDormant, desired, settings, dialect, isFirst);
      isFirst = false;
      const drifted = before ? countDrift(comparison, before, dirty) : 0;
      dirty.clear();
      for (const key of comparison.incomplete) if (!refusals.has(key)) dirty.add(key);
      return { realized: comparison.realized, drifted };
    },
    glance: async (realized) => await chains.hasAll(realized) ? 0 : undefined,
    write: (realized, run) => writeDirty({ ...context, realized, run, settings: settingsOf(desired) }),
    retry(keys) {
      for (const key of keys) dirty.add(key);
    },
    confirm: async () => spellings.areInQuestion() ? spellings.learn(await readTable(tools)) : 0,
  };
  const reconciler = createReconciler({ target, refusals, searchLimit: SEARCH_LIMIT, clock, generation });

  return {
    hasAllChains: unlessUnchanged(generation, async () => {
      const realized = reconciler.realized();
      return realized === undefined || await chains.hasAll(realized);
    }),
    touch(keys) {
      refusals.forget(keys);
      for (const key of keys) dirty.add(key);
    },
    isBlank: async () => (await chainsInTable(tools, dialect)).size === 0,
    run: reconciler.run,
    compareAndRun: reconciler.compareAndRun,
    invalidate: reconciler.invalidate,
    problems: reconciler.problems,
    problemOf: reconciler.problemOf,
    takeFigures: () => ({ ...figures.take(), drift_repaired: reconciler.takeDrifted() }),
    takeEarlierUdpFrontends: earlierFrontends.take,
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
      const there = shown && isSame(shown) ? shown : await chainsInTable(tools, dialect);
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

/** Counts the drift: differences in parts that were in effect and had no pending change. */
function countDrift(
  { realized, incomplete }: Comparison,
  before: RealizedState,
  dirty: ReadonlySet<ServicePortKey>,
): number {
  let count = realized.strays.filter(({ list }) => list !== "set").length;
  for (const key of incomplete) if (before.applied.has(key) && !dirty.has(key)) count++;
  for (const [name, text] of before.chains) if (realized.chains.get(name) !== text) count++;
  return count;
}

interface Spelling {
  readonly read: string;
  readonly written: string;
}

/** Texts that this host's nft prints differently from how they were written, which is no drift. */
function createSpellings(dialect: Dialect) {
  const known = new Map<string, Spelling>(), suspected = new Map<string, Spelling & { readonly repairs: number }>();
  let inQuestion = new Map<string, Spelling>();

  /** A set cannot be changed in place: if it reads differently from how it was created, that is a spelling. */
  function learnDeclarations(listing: Listing): void {
    for (const [name, text] of declaredSets({ countTraffic: true, countsAttempts: true }, dialect)) {
      const read = listing.get("set")!.get(name);
      if (read !== undefined && read !== text) known.set(name, { read, written: text });
    }
  }

  return {
    /** Puts the texts as they were written into a listing. Notes what is not known yet, by the realized state before it. */
    translate(listing: Listing | undefined, before: RealizedState | undefined): void {
      inQuestion = new Map();
      if (!listing) return;
      if (before && !before.isDifferent && before.missingSets.size === 0) learnDeclarations(listing);
      const sets = listing.get("set")!, chains = listing.get("chain")!;
      for (const [name, text] of before ? chainTexts(before, dialect) : []) {
        const read = chains.get(name), spelling = known.get(name);
        if (read === undefined || chainLines(read).length !== chainLines(text).length) continue;
        if (text === read) suspected.delete(name);
        else if (spelling?.read !== read || spelling.written !== text) inQuestion.set(name, { read, written: text });
      }
      for (const [name, { read, written }] of known) {
        for (const texts of [sets, chains]) if (texts.get(name) === read) texts.set(name, written);
      }
    },
    /** Whether the last listing showed chains that may only be spelled differently. */
    areInQuestion: () => inQuestion.size > 0,
    /** Notes a listing after the repair of these chains. Returns how many of them are only spelled differently. */
    learn(listing: Listing | undefined): number {
      let learned = 0;
      for (const [name, spelling] of inQuestion) {
        const before = suspected.get(name);
        suspected.delete(name);
        // A chain that reads the same before and after its repair was not changed by another program.
        if (listing?.get("chain")?.get(name) !== spelling.read) continue;
        const isSame = before?.read === spelling.read && before.written === spelling.written;
        const repairs = isSame ? before.repairs + 1 : 1;
        if (repairs < SPELLING_REPAIRS) suspected.set(name, { ...spelling, repairs });
        else known.set(name, spelling);
        learned++;
      }
      inQuestion = new Map();
      return learned;
    },
  };
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
