import type { ComparisonCause, FamilySettings, ServicePortKey, SyncProblem } from "../../core/model/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import {
  createAccumulator,
  createReconciler as createCommonReconciler,
  createRefusals,
  type Target,
} from "../reconcile/mod.ts";
import { type ReconcileFigures, type TransactionContext, writeDirty } from "./apply.ts";
import type { Desired } from "./desired.ts";
import { readTable, udpFrontendsOf } from "./listing.ts";
import { compare, type Comparison, type Shadow } from "./shadow.ts";
import { createSpellings } from "./spellings.ts";
import type { Dialect } from "./table.ts";
import { chainsInTable, type NftTools } from "./tools.ts";

/** Brings the kernel's table to the desired state. */
export interface Reconciler {
  /** Marks service ports whose parts of the table may differ from the kernel's, and ends their refusals. */
  touch(keys: ReadonlySet<ServicePortKey>): void;
  /** Whether the table is missing or has no chain. Throws if the kernel cannot be read. */
  isBlank(): Promise<boolean>;
  /** Writes the marked parts that differ. Throws if the kernel could not be brought to the desired state. */
  run(): Promise<void>;
  /**
   * Compares the kernel with the desired state, retries refused changes, and repairs the differences. Between two
   * listings only the names of the chains are compared, which detects a table that was flushed or deleted. Throws as
   * `run` does.
   */
  compareAndRun(cause?: ComparisonCause): Promise<void>;
  /** Forgets the realized state, after a cleanup. */
  invalidate(): void;
  /** The service ports that the kernel refuses. */
  problems(): SyncProblem[];
  /** The reason why the kernel refuses a service port; undefined if it does not. */
  problemOf(key: ServicePortKey): SyncProblem | undefined;
  /** The figures since the last call; `drifted` counts changes by other programs. */
  takeFigures(): ReconcileFigures & { readonly drifted: number };
  /** The UDP frontends that the table served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** Inputs of `createReconciler`. */
export interface ReconcilerOptions {
  readonly desired: Desired;
  readonly tools: NftTools;
  readonly dialect: Dialect;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The maximum number of transactions that one run may spend on the search for refused changes. */
const SEARCH_LIMIT = 200;

/** A reconciler that has not read the kernel yet. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { clock, logger } = options;
  const refusals = createRefusals<ServicePortKey>(logger);
  const figures = createAccumulator(noFigures);
  const dirty = new Set<ServicePortKey>();
  const invalidate = () => reconciler.invalidate();
  const target = createTarget({ ...options, refusals, figures, dirty, invalidate });
  const reconciler = createCommonReconciler({ target, refusals, searchLimit: SEARCH_LIMIT, clock });
  return {
    touch(keys) {
      refusals.forget(keys);
      for (const key of keys) dirty.add(key);
    },
    isBlank: async () => (await chainsInTable(options.tools, options.dialect)).size === 0,
    run: reconciler.run,
    compareAndRun: reconciler.compareAndRun,
    invalidate,
    problems: reconciler.problems,
    problemOf: reconciler.problemOf,
    takeFigures: () => ({ ...figures.take(), drifted: reconciler.takeDrifted() }),
    takeEarlierUdpFrontends: target.takeEarlierUdpFrontends,
  };
}

function createTarget(
  context: TransactionContext,
): Target<Shadow, ServicePortKey> & Pick<Reconciler, "takeEarlierUdpFrontends"> {
  const { desired, tools, dialect, refusals, dirty } = context;
  const spellings = createSpellings(dialect);
  const earlierFrontends = createAccumulator<ReadonlySet<UdpFrontend>>(() => new Set());
  let isFirst = true;

  return {
    async list(before) {
      const settings = settingsOf(desired);
      const listing = await readTable(tools);
      if (isFirst && listing) earlierFrontends.value = udpFrontendsOf(listing, dialect);
      isFirst = false;
      spellings.note(listing, before);
      const comparison = compare(listing, desired, settings, dialect, spellings.written);
      const drifted = before ? countDrift(comparison, before, dirty) : 0;
      dirty.clear();
      for (const key of comparison.incomplete) if (!refusals.has(key)) dirty.add(key);
      return { realized: comparison.shadow, drifted };
    },
    async glance({ chains }) {
      const there = await chainsInTable(tools, dialect);
      for (const name of chains.keys()) if (!there.has(name)) return undefined;
      return 0;
    },
    write: (shadow, round) => writeDirty({ ...context, shadow, round, settings: settingsOf(desired) }),
    retry(keys) {
      for (const key of keys) dirty.add(key);
    },
    confirm: async () => spellings.areInQuestion() ? spellings.learn(await readTable(tools)) : 0,
    takeEarlierUdpFrontends: earlierFrontends.take,
  };
}

function settingsOf(desired: Desired): FamilySettings {
  const settings = desired.settings();
  if (!settings) throw new Error("there are no settings before the first full snapshot");
  return settings;
}

/** Counts the drift: differences in parts that were in effect and had no pending change. */
function countDrift(
  { shadow, incomplete }: Comparison,
  before: Shadow,
  dirty: ReadonlySet<ServicePortKey>,
): number {
  let count = shadow.strays.elements.length + shadow.strays.chains.length;
  for (const key of incomplete) if (before.applied.has(key) && !dirty.has(key)) count++;
  for (const [name, text] of before.chains) if (shadow.chains.get(name) !== text) count++;
  return count;
}

function noFigures(): ReconcileFigures {
  return {
    elementsWritten: 0,
    elementsDeleted: 0,
    chainsWritten: 0,
    transactions: 0,
    transactionFailures: 0,
  };
}
