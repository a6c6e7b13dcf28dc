import type { FamilySettings, ServicePortKey, SyncProblem } from "../../core/model/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import { findRefused } from "../reconcile/mod.ts";
import { failureText, wasKilled } from "../tools/mod.ts";
import { changeBatches } from "./batches.ts";
import { LAST_BASE_CHAIN } from "./base_chains.ts";
import type { Desired } from "./desired.ts";
import { readTable, udpFrontendsOf } from "./listing.ts";
import { compare, type Shadow } from "./shadow.ts";
import { createSpellings } from "./spellings.ts";
import { type Dialect, TABLE } from "./table.ts";
import { isHostFailure, type NftTools } from "./tools.ts";
import { type Change, type PlannedTransaction, planTransaction, type Stage } from "./plan.ts";

/** Figures of one reconciliation, for metrics (see SyncResult). */
export interface ReconcileFigures {
  elementsWritten: number;
  elementsDeleted: number;
  chainsWritten: number;
  transactions: number;
  transactionFailures: number;
  drifted: number;
}

/** Brings the kernel's table to what is desired, and knows what is still to be done. */
export interface Reconciler {
  /** The parts of these service ports may differ from what the kernel holds. */
  touch(keys: Iterable<ServicePortKey>): void;
  /** What the kernel refused is tried again at the next run. */
  retryRefused(): void;
  /** Whether there is no chain in the table, or no table. Throws where the kernel cannot be asked. */
  isBlank(): Promise<boolean>;
  /** Writes what is touched and differs. Throws where the kernel could not be brought to it. */
  run(): Promise<void>;
  /** Looks at the kernel anew, where that is due, and repairs what differs. Throws as `run` does. */
  compareAndRun(): Promise<void>;
  /** The table is gone. */
  forget(): void;
  /** The service ports that the kernel refuses. */
  problems(): SyncProblem[];
  /** Why the kernel refuses a service port, where it does. */
  problemOf(key: ServicePortKey): SyncProblem | undefined;
  /** The figures since this was last asked. */
  takeFigures(): ReconcileFigures;
  /** The UDP frontends that the table served at the first look; empty when asked again. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** What the reconciler works with. */
export interface ReconcilerOptions {
  readonly desired: Desired;
  readonly tools: NftTools;
  readonly dialect: Dialect;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How many transactions one run may spend on finding what the kernel refuses. */
const SEARCH_LIMIT = 200;

/**
 * Listing the table costs as much as writing it did, so that no more than this share of the time goes into comparing
 * all of it. In between, only the names of the chains are compared, which shows a table that was flushed or deleted.
 */
const COMPARING_SHARE = 0.01;

/** So many service ports make more than one transaction, each of which is put together while nft is busy with another. */
const MANY = 5_000;

/** nft's transaction did not go through. */
class TransactionError extends Error {
  override readonly name = "TransactionError";
}

/** What is believed of the kernel may be wrong: it is to be looked at before anybody is blamed. */
class DoubtError extends Error {
  override readonly name = "DoubtError";
}

/** A reconciler that has not looked at the kernel yet. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { desired, tools, dialect, clock, logger } = options;
  let dirty = new Set<ServicePortKey>();
  const refused = new Map<ServicePortKey, SyncProblem>();
  const spellings = createSpellings(dialect);
  let shadow: Shadow | undefined;
  let compareNotBeforeMs = 0;
  let figures = noFigures();
  let earlierFrontends: ReadonlySet<UdpFrontend> | undefined;
  const budget = { left: SEARCH_LIMIT };

  function settingsNow(): FamilySettings {
    const settings = desired.settings();
    if (!settings) throw new Error("there are no settings before the first whole state");
    return settings;
  }

  /** Reads the kernel; what is not as it should be is touched. */
  async function look(): Promise<void> {
    const before = shadow;
    shadow = undefined;
    const startedMs = clock.monotonic();
    const listing = await readTable(tools);
    earlierFrontends ??= listing ? udpFrontendsOf(listing, dialect) : NO_FRONTENDS;
    spellings.note(listing, before);
    const comparison = compare(listing, desired, settingsNow(), dialect, spellings.written);
    compareNotBeforeMs = clock.monotonic() + (clock.monotonic() - startedMs) / COMPARING_SHARE;
    if (before) figures.drifted += driftOf(comparison.shadow, comparison.incomplete, before);
    shadow = comparison.shadow;
    dirty = new Set([...comparison.incomplete].filter((key) => !refused.has(key)));
  }

  /** How many things others have changed: what differs although it was in effect and was not about to change. */
  function driftOf(found: Shadow, incomplete: ReadonlySet<ServicePortKey>, before: Shadow): number {
    let count = found.strays.elements.length + found.strays.chains.length;
    for (const key of incomplete) if (before.applied.has(key) && !dirty.has(key)) count++;
    for (const [name, text] of before.chains) if (found.chains.get(name) !== text) count++;
    return count;
  }

  async function transact(planned: PlannedTransaction, onInputTaken?: () => void): Promise<string | undefined> {
    if (planned.isEmpty) {
      planned.commit();
      for (const { key } of planned.changes) dirty.delete(key);
      return undefined;
    }
    figures.transactions++;
    const believed = shadow!;
    // A tool that is killed leaves it open whether its input is in effect.
    shadow = undefined;
    const result = await tools.transact(planned.transaction, onInputTaken);
    if (wasKilled(result.exitCode)) {
      figures.transactionFailures++;
      throw new TransactionError(failureText("nft", result));
    }
    shadow = believed;
    if (result.exitCode !== 0) {
      figures.transactionFailures++;
      const failure = failureText("nft", result);
      if (isHostFailure(result.stderr)) throw new TransactionError(failure);
      return failure;
    }
    planned.commit();
    for (const { key } of planned.changes) dirty.delete(key);
    const count = (elements: ReadonlyMap<unknown, readonly string[]>) =>
      [...elements.values()].reduce((sum, { length }) => sum + length, 0);
    figures.elementsWritten += count(planned.transaction.newElements);
    figures.elementsDeleted += count(planned.transaction.deletedElements);
    figures.chainsWritten += planned.transaction.chains.length;
    return undefined;
  }

  /** Leaves out what the kernel refuses of a transaction, and writes the rest. */
  async function isolate(changes: readonly Change[], failure: string, settings: FamilySettings): Promise<void> {
    const attempt = (some: readonly Change[]) =>
      transact(planTransaction({ changes: some, shadow: shadow!, settings, dialect, stage: "ports" }));
    const culpritOf = (some: readonly Change[]) => some.length === 1 ? some[0] : undefined;
    for (let rest = changes, said: string | undefined = failure; said !== undefined;) {
      const found = await findRefused(rest, said, { attempt, culpritOf, budget });
      if (found === "all written") return;
      if (found === undefined) throw new TransactionError(said);
      refuse(found.culprit, found.failure);
      rest = found.untried;
      if (rest.length === 0) return;
      said = await attempt(rest);
    }
  }

  function refuse({ key, next }: Change, failure: string): void {
    const servicePort = next?.port.name;
    const message = `the kernel refuses the rules of ${servicePort ?? key}, which stay as they were until it changes ` +
      `or the next comparison with the kernel: ${failure}`;
    logger.error(message, { service: servicePort });
    refused.set(key, { code: "rules-refused", servicePort, message });
    dirty.delete(key);
  }

  /** One pass over everything that is touched. */
  async function pass(trusted: boolean): Promise<void> {
    const settings = settingsNow();
    const must = async (planned: PlannedTransaction) => {
      const failure = await transact(planned);
      if (failure === undefined) return;
      if (!trusted) throw new DoubtError(failure);
      throw new TransactionError(failure);
    };
    const plan = (changes: readonly Change[], stage: Stage) =>
      planTransaction({ changes, shadow: shadow!, settings, dialect, stage });
    const replaces = shadow!.sets === "different";
    const isFirst = !replaces && !shadow!.chains.has(LAST_BASE_CHAIN);
    if (isFirst || shadow!.sets === "missing") await must(plan([], "frame"));
    // Without packets yet, or behind the head of a state.
    const manyAreNew = isFirst || dirty.size > MANY;
    const all = changeBatches({ desired, dirty, kernel: shadow!, settings, dialect });
    for (let next = all.next(); !next.done;) {
      const changes = next.value;
      let written: Promise<string | undefined>;
      if (!replaces && manyAreNew) {
        // The next batch is put together while nft is busy with this one, having read all of it.
        const taken = Promise.withResolvers<void>();
        written = transact(plan(changes, "ports"), taken.resolve);
        await Promise.race([taken.promise, written]);
        next = all.next();
      } else {
        next = all.next();
        written = transact(plan(changes, replaces ? "all" : next.done ? "last" : "ports"));
      }
      const failure = await written;
      if (failure === undefined) continue;
      if (!trusted) throw new DoubtError(failure);
      if (replaces) await must(plan([], "all"));
      await isolate(changes, failure, settings);
    }
    await must(plan([], "last"));
  }

  async function run(): Promise<void> {
    budget.left = SEARCH_LIMIT;
    let trusted = shadow === undefined;
    if (trusted) await look();
    for (;;) {
      try {
        await pass(trusted);
        return;
      } catch (error) {
        if (!(error instanceof DoubtError)) throw error;
        logger.warn(
          "nft refused a transaction: what the kernel holds is compared, and what it refuses is searched for",
          {
            error: error.message,
          },
        );
        trusted = true;
        // What stays refused is tried again every so often, which must not cost a comparison of everything each time.
        if (await isComparisonDue()) await look();
      }
    }
  }

  async function isComparisonDue(): Promise<boolean> {
    return clock.monotonic() >= compareNotBeforeMs || !await chainsAreThere();
  }

  async function chainsAreThere(): Promise<boolean> {
    const there = await chainsInTable();
    return [...shadow!.chains.keys()].every((name) => there.has(name));
  }

  async function chainsInTable(): Promise<ReadonlySet<string>> {
    const names = new Set<string>();
    let inTable = false;
    await tools.listChains((line) => {
      if (line.startsWith("table ")) inTable = line === `table ${dialect.ip} ${TABLE} {`;
      else if (inTable && line.startsWith("\tchain ")) names.add(line.slice("\tchain ".length, -" {".length));
    });
    return names;
  }

  return {
    touch(keys) {
      for (const key of keys) {
        refused.delete(key);
        dirty.add(key);
      }
    },
    retryRefused() {
      for (const key of refused.keys()) dirty.add(key);
      refused.clear();
    },
    isBlank: async () => (await chainsInTable()).size === 0,
    run,
    async compareAndRun() {
      if (shadow && await isComparisonDue()) await look();
      await run();
      if (spellings.areInQuestion()) figures.drifted -= spellings.learn(await readTable(tools));
    },
    forget() {
      shadow = undefined;
    },
    problems: () => [...refused.values()],
    problemOf: (key) => refused.get(key),
    takeFigures() {
      const taken = figures;
      figures = noFigures();
      return taken;
    },
    takeEarlierUdpFrontends() {
      const taken = earlierFrontends ?? NO_FRONTENDS;
      if (earlierFrontends) earlierFrontends = NO_FRONTENDS;
      return taken;
    },
  };
}

const NO_FRONTENDS: ReadonlySet<UdpFrontend> = new Set();

function noFigures(): ReconcileFigures {
  return {
    elementsWritten: 0,
    elementsDeleted: 0,
    chainsWritten: 0,
    transactions: 0,
    transactionFailures: 0,
    drifted: 0,
  };
}
