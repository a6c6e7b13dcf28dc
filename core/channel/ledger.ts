import type { Clock } from "../../platform/mod.ts";
import { type Family, refusedPorts, type ServicePortKey, type ServicePortName, type SyncReport } from "../model/mod.ts";

/**
 * The state of the planned changes of one family: the revision they were sent with, since when they are in effect, or why they
 * were refused. Everything that waits for changes to take effect uses it.
 */
export interface Ledger {
  /**
   * Notes that the plan of these service ports has changed.
   * @param triggerTimesMs when the cluster made those changes, in milliseconds since 1970
   */
  planned(keys: Iterable<ServicePortKey>, triggerTimesMs?: Iterable<number>): void;
  /** Notes that everything planned up to this round of planning was sent as part of this revision. */
  sent(revision: number, round: number): void;
  /** Notes that no planned change differs from the sent state: waiting items are in effect with the last delta. */
  unchanged(): void;
  /** Notes the end of a sync. Returns the trigger times of the changes that it brought into effect. */
  reported(report: SyncReport): readonly number[];
  /**
   * The effect of the plan of a service port in this round.
   * @param hasUnsent whether any change is unsent; a change that was reverted before it was sent does not count
   */
  effect(name: ServicePortName, round: number, hasUnsent: boolean): Effect;
  /** The number of service ports whose last change is not in the kernel, without refused ones; `hasUnsent` as in `effect`. */
  waiting(hasUnsent: boolean): number;
  /** Adds a list of items that wait until everything planned before them is in effect. */
  awaiting<Key, Item>(options: AwaitedOptions<Key, Item>): Awaited<Key, Item>;
}

/** Options of `Ledger.awaiting`. */
interface AwaitedOptions<Key, Item> {
  /** Called with the items that a sync brought into effect, in the order in which they were sent. */
  readonly settled: (items: readonly (readonly [Key, Item])[], settlement: Settlement) => void;
  /** Merges two sent items with the same key; by default, the later one stays. */
  readonly join?: (earlier: Item, later: Item) => Item;
}

/** Whether something is in effect, by which revision and since when, or refused by the kernel. */
export interface Effect {
  readonly state: "waiting" | "in effect" | "refused";
  /** The revision that carries it; undefined if it was not sent yet. */
  readonly revision: number | undefined;
  /** The end of the sync, or of the first refused one, in milliseconds since 1970; undefined while waiting. */
  readonly syncedAtMs: number | undefined;
  /** The tool that refused it and its error message. */
  readonly refusal?: string;
  /** Whether an earlier sync, no longer recorded, may have brought it into effect. */
  readonly orEarlier: boolean;
}

/** The sync that brought changes into effect. */
interface Settlement {
  readonly report: SyncReport;
  /** When the last of them was sent, in milliseconds since 1970. */
  readonly sentAtMs: number;
}

/** Items that wait until everything planned so far is in effect, one for each key and delta. */
export interface Awaited<Key, Item> {
  /** Adds an item, in place of an unsent one with the same key. */
  add(key: Key, item: Item): void;
  /** The item of this key that was not sent yet. */
  unsent(key: Key): Item | undefined;
  /** Removes the item of this key that was not sent yet. */
  deleteUnsent(key: Key): void;
  /** Removes all items of this key. */
  delete(key: Key): void;
}

/** The ledgers of both families. */
export type Ledgers = Readonly<Record<Family, Ledger>>;

/** Creates ledgers without changes. */
export function createLedgers(clock: Clock): Ledgers {
  return { IPv4: createLedger(clock), IPv6: createLedger(clock) };
}

interface Batch {
  readonly revision: number;
  readonly round: number;
  readonly sentAtMs: number;
  readonly keys: ReadonlySet<ServicePortKey>;
  readonly triggerTimesMs: readonly number[];
}

/** A list of waiting items, whose types only its owner knows. */
interface List {
  /** The unsent items belong to this revision from now on. */
  sent(revision: number): void;
  /** The items of the reported revision and of earlier ones are in effect. */
  settle(settlement: Settlement): void;
  /** Merges the items of a revision into the items of the next one. */
  join(revision: number, next: number): void;
}

interface LedgerState {
  unsent: { readonly keys: Set<ServicePortKey>; readonly timesMs: number[] };
  inFlight: Batch[];
  refusals: ReadonlyMap<ServicePortName, { readonly message: string; readonly sinceMs: number }>;
  lastSettlement?: Settlement;
}

/** The number of deltas in flight that are tracked separately; there are more only while syncs fail. */
const MOST_IN_FLIGHT = 16;

/**
 * Creates a ledger without changes.
 * @param longest the number of past syncs that are tracked separately
 */
export function createLedger(clock: Clock, longest = 128): Ledger {
  const state: LedgerState = { unsent: { keys: new Set(), timesMs: [] }, inFlight: [], refusals: new Map() };
  const lists: List[] = [];
  const arrivals = createArrivals(longest);

  const settle = (settlement: Settlement) => {
    state.lastSettlement = settlement;
    lists.forEach((list) => list.settle(settlement));
  };

  const since = (round: number): Effect => {
    const revision = state.inFlight.find((one) => one.round >= round)?.revision;
    return arrivals.since(round) ?? { state: "waiting", revision, syncedAtMs: undefined, orEarlier: false };
  };

  return {
    planned(keys, triggerTimesMs = []) {
      for (const key of keys) state.unsent.keys.add(key);
      for (const timeMs of triggerTimesMs) state.unsent.timesMs.push(timeMs);
    },
    sent(revision, round) {
      const { inFlight, unsent: { keys, timesMs } } = state;
      inFlight.push({ revision, round, sentAtMs: clock.now(), keys, triggerTimesMs: timesMs });
      state.unsent = { keys: new Set(), timesMs: [] };
      lists.forEach((list) => list.sent(revision));
      if (inFlight.length <= MOST_IN_FLIGHT) return;
      const [oldest, next, ...rest] = inFlight as [Batch, Batch, ...Batch[]];
      lists.forEach((list) => list.join(oldest.revision, next.revision));
      const triggerTimesMs = [...oldest.triggerTimesMs, ...next.triggerTimesMs];
      state.inFlight = [{ ...next, keys: oldest.keys.union(next.keys), triggerTimesMs }, ...rest];
    },
    unchanged() {
      const { lastSettlement } = state, last = state.inFlight.at(-1)?.revision;
      if (last === undefined && lastSettlement === undefined) return;
      lists.forEach((list) => list.sent(last ?? lastSettlement!.report.revision));
      if (last === undefined) settle(lastSettlement!);
    },
    reported(report) {
      const { ok, revision, problems, endedAtMs } = report, { refusals: before, inFlight } = state;
      if (!ok) return [];
      state.refusals = new Map(
        refusedPorts(problems).map(({ servicePort, message }) =>
          [servicePort, { message, sinceMs: before.get(servicePort)?.sinceMs ?? endedAtMs }] as const
        ),
      );
      const settled = inFlight.filter((one) => one.revision <= revision);
      if (settled.length === 0) return [];
      state.inFlight = inFlight.filter((one) => one.revision > revision);
      arrivals.add(settled, endedAtMs);
      settle({ report, sentAtMs: settled.at(-1)!.sentAtMs });
      return settled.flatMap(({ triggerTimesMs }) => triggerTimesMs);
    },
    effect(name, round, hasUnsent) {
      const recorded = since(round), refusal = state.refusals.get(name);
      if (recorded.state === "in effect") {
        if (refusal === undefined) return recorded;
        return { ...recorded, state: "refused", syncedAtMs: refusal.sinceMs, refusal: refusal.message };
      }
      // A change that was reverted before it was sent needs no delta.
      return recorded.revision !== undefined || hasUnsent
        ? recorded
        : { ...recorded, state: "in effect", orEarlier: true };
    },
    waiting(hasUnsent) {
      // A service port that changed again while its earlier change was in flight counts once.
      const unsent: ReadonlySet<ServicePortKey> = hasUnsent ? state.unsent.keys : new Set();
      return state.inFlight.reduce((all, { keys }) => all.union(keys), unsent).size;
    },
    awaiting(options) {
      const { list, awaited } = createAwaited(options);
      lists.push(list);
      return awaited;
    },
  };
}

/** The past syncs that carried changes. The first stays, since most of a cluster has been in effect since then. */
function createArrivals(longest: number) {
  const arrivals: (Pick<Batch, "revision" | "round"> & { readonly atMs: number })[] = [];
  let hasDropped = false;
  return {
    add(batches: readonly Batch[], atMs: number): void {
      arrivals.push(...batches.map(({ revision, round }) => ({ revision, round, atMs })));
      if (arrivals.length <= longest) return;
      arrivals.splice(1, arrivals.length - longest);
      hasDropped = true;
    },
    /** The sync that brought a round into effect; undefined if none has. */
    since(round: number): Effect | undefined {
      const at = arrivals.findIndex((arrival) => arrival.round >= round), arrival = arrivals[at];
      if (arrival === undefined) return undefined;
      const { revision, atMs } = arrival;
      return { state: "in effect", revision, syncedAtMs: atMs, orEarlier: hasDropped && at === 1 };
    },
  };
}

function createAwaited<Key, Item>({ settled, join = (_, later) => later }: AwaitedOptions<Key, Item>) {
  let unsent = new Map<Key, Item>();
  const sent = new Map<number, Map<Key, Item>>();
  const joined = (earlier: ReadonlyMap<Key, Item> | undefined, later: ReadonlyMap<Key, Item>) => {
    const all = new Map(earlier);
    for (const [key, item] of later) all.set(key, all.has(key) ? join(all.get(key)!, item) : item);
    return all;
  };
  const list: List = {
    sent(revision) {
      if (unsent.size === 0) return;
      sent.set(revision, joined(sent.get(revision), unsent));
      unsent = new Map();
    },
    settle(settlement) {
      const revisions = [...sent.keys()].filter((one) => one <= settlement.report.revision).sort((a, b) => a - b);
      const items = revisions.flatMap((revision) => [...sent.get(revision)!]);
      revisions.forEach((revision) => sent.delete(revision));
      if (items.length > 0) settled(items, settlement);
    },
    join(revision, next) {
      const earlier = sent.get(revision);
      if (earlier === undefined) return;
      sent.delete(revision);
      sent.set(next, joined(earlier, sent.get(next) ?? new Map()));
    },
  };
  const awaited: Awaited<Key, Item> = {
    add: (key, item) => unsent.set(key, item),
    unsent: (key) => unsent.get(key),
    deleteUnsent: (key) => void unsent.delete(key),
    delete(key) {
      unsent.delete(key);
      for (const items of sent.values()) items.delete(key);
    },
  };
  return { list, awaited };
}
