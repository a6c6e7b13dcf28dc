import { serviceKey } from "../../core/tracking/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { Change, ClusterScoped, ServiceState, Store, StoreDifference, StoreState } from "../store/mod.ts";
import { createGlobalView, createLocalViews, difference, everythingOf, type LocalViews } from "../views/mod.ts";
import {
  type AwaitedChunks,
  type Chunks,
  createLocalSnapshot,
  lazyChunks,
  type LocalSnapshot,
  sharedChunks,
} from "./snapshots.ts";
import { createDeadline, type Deadline, type Revisions } from "./waiting.ts";

/** The request of a watcher. */
export interface Subscription {
  readonly scope: "global" | "local";
  readonly nodeName: string;
  /** Whether the watcher is a Sluice. */
  readonly extended: boolean;
  /** The only node that a global watcher receives; undefined for all. */
  readonly onlyNode: string | undefined;
}

/** The state that a watcher has received. */
export interface Position {
  readonly revision: number;
  readonly zone: string;
}

/** The operations for a watcher, and its position afterwards. */
export interface Answer<Part extends AwaitedChunks = AwaitedChunks> {
  readonly parts: readonly Part[];
  readonly position: Position;
  /** Called when the parts are written or no longer needed. */
  readonly release?: () => void;
}

/** Answers watchers, from this isolate or another one. */
export interface Answers {
  /** The changes for a watcher at that position, possibly none; undefined if it needs a full snapshot. */
  changes(position: Position, subscription: Subscription): Answer | undefined | Promise<Answer | undefined>;
  /** A full snapshot, to be written after a `Reset`. */
  snapshot(subscription: Subscription): Answer | Promise<Answer>;
}

/** The state that watchers receive. */
export interface ServedState {
  readonly revisions: Revisions;
  readonly answers: Answers;
}

/** Answers from a store; what several watchers receive is computed once. */
export interface StoreAnswers extends Answers {
  changes(position: Position, subscription: Subscription): Answer<Chunks> | undefined;
  snapshot(subscription: Subscription): Answer<Chunks>;
}

/** The time for which a full snapshot is kept for other watchers after its last use. */
const WHOLE_STATE_MS = 10_000;
/** The share of the services above which a snapshot with the changes since is replaced by a new one. */
const MOST_CHANGED = 0.1;
/** The number of revisions from which the step to the newest is kept. */
const STEPS_KEPT = 16;

interface Basis {
  readonly store: Store;
  /** The newest revision, to which answers lead. */
  newest: number;
  readonly changesSince: Store["since"];
  /** The cluster-scoped objects of a full snapshot; with a node's name without the other Nodes. */
  readonly scopedFor: (nodeName: string | undefined) => StoreDifference["scoped"];
}

/** Answers from this store. */
export function createAnswers(store: Store, clock: Clock): StoreAnswers {
  const changes = new Map<number, StoreDifference | undefined>();
  const changesSince = (revision: number): StoreDifference | undefined => {
    if (!changes.has(revision)) changes.set(revision, store.since(revision));
    return changes.get(revision);
  };
  const basis: Basis = { store, newest: -1, changesSince, scopedFor: createScopedObjects(store) };
  const services = createGlobalServices(store, clock, changesSince);
  const answers = { global: globalAnswers(basis, services), local: localAnswers(basis, clock) };

  /** Drops the steps and changes up to an older revision. */
  const keepUp = () => {
    const revision = store.revision();
    if (revision !== basis.newest) {
      services.dropSteps();
      changes.clear();
    }
    basis.newest = revision;
  };

  return {
    changes(position, subscription) {
      keepUp();
      return answers[subscription.scope].changes(position, subscription);
    },
    snapshot(subscription) {
      keepUp();
      return answers[subscription.scope].snapshot(subscription);
    },
  };
}

function globalAnswers(basis: Basis, services: ReturnType<typeof createGlobalServices>): StoreAnswers {
  const { changesSince, scopedFor } = basis;
  const viewFor = ({ extended, onlyNode }: Subscription) => createGlobalView({ extended, nodeName: onlyNode });
  return {
    changes(past, subscription) {
      const changed = changesSince(past.revision);
      if (changed === undefined) return undefined;
      return {
        parts: [
          lazyChunks(difference({ scoped: changed.scoped, services: [] }, viewFor(subscription))),
          services.step(past.revision, subscription.extended, changed.services),
        ],
        position: { revision: basis.newest, zone: "" },
      };
    },
    snapshot(subscription) {
      const { extended, onlyNode } = subscription;
      const { state, chunks } = services.whole(extended);
      const later = changesSince(state.revision)!;
      return {
        parts: [
          onlyNode === undefined
            ? services.scoped(extended, scopedFor(undefined))
            : lazyChunks(difference({ scoped: scopedFor(onlyNode), services: [] }, viewFor(subscription))),
          chunks,
          services.step(state.revision, extended, later.services),
        ],
        position: { revision: basis.newest, zone: "" },
      };
    },
  };
}

function localAnswers(basis: Basis, clock: Clock): StoreAnswers {
  const { store, changesSince, scopedFor } = basis;
  const localViews = createSharedLocalViews(store, clock, changesSince);
  const nodeFor = ({ nodeName: name }: Subscription) => ({ name, zone: store.node(name)?.zone ?? "" });
  return {
    changes(past, subscription) {
      const changed = changesSince(past.revision);
      if (changed === undefined) return undefined;
      const node = nodeFor(subscription);
      const views = localViews.of(subscription.extended);
      const view = views.of(node);
      const position = { revision: basis.newest, zone: node.zone };
      if (past.zone === node.zone) return { parts: [lazyChunks(difference(changed, view))], position };
      const everything = { ...changed, services: allServices(store.state(), changed.services) };
      const viewBefore = views.of({ name: node.name, zone: past.zone });
      return { parts: [lazyChunks(difference(everything, view, viewBefore))], position };
    },
    snapshot(subscription) {
      const { extended, nodeName } = subscription;
      const node = nodeFor(subscription);
      const view = localViews.of(extended).of(node);
      const { state, partsFor } = localViews.snapshot(extended);
      return {
        parts: [
          lazyChunks(difference({ scoped: scopedFor(nodeName), services: [] }, view)),
          ...partsFor(node),
          lazyChunks(difference({ services: changesSince(state.revision)!.services, scoped: [] }, view)),
        ],
        position: { revision: basis.newest, zone: node.zone },
      };
    },
  };
}

/** The cluster-scoped objects of a full snapshot. For a watcher of one node, the other Nodes are not visited. */
function createScopedObjects(store: Store) {
  let known: { readonly revision: number; readonly others: readonly ClusterScoped[] } | undefined;

  const exceptNodes = (): readonly ClusterScoped[] => {
    const revision = store.revision();
    if (known?.revision !== revision) {
      known = { revision, others: store.state().scoped.filter(({ kind }) => kind !== "Node") };
    }
    return known.others;
  };

  return (nodeName: string | undefined): StoreDifference["scoped"] => {
    const node = nodeName === undefined ? undefined : store.node(nodeName);
    const objects = nodeName === undefined ? store.state().scoped : [...node ? [node] : [], ...exceptNodes()];
    return objects.map((after) => ({ before: undefined, after }));
  };
}

/** All services and their changes for global watchers, computed once for several of them. */
function createGlobalServices(store: Store, clock: Clock, changesSince: Store["since"]) {
  // By kind of view: the full snapshot; and, until the next revision, the steps from each one and the cluster-scoped objects.
  const snapshots = new Map<
    boolean,
    { readonly state: StoreState; readonly chunks: Chunks; readonly expiry: Deadline }
  >();
  const steps = new Map<string, Chunks>();
  const views = new Map(
    [false, true].map((extended) => [extended, createGlobalView({ extended, nodeName: undefined })]),
  );

  const whole = (extended: boolean) => {
    const known = snapshots.get(extended);
    if (known !== undefined && isCurrent(known.state)) {
      known.expiry.set(WHOLE_STATE_MS);
      return known;
    }
    known?.expiry.stop();
    const state = store.state();
    const made = {
      state,
      chunks: sharedChunks(difference({ ...everythingOf(state), scoped: [] }, views.get(extended)!)),
      expiry: createDeadline(clock, () => snapshots.delete(extended)),
    };
    made.expiry.set(WHOLE_STATE_MS);
    snapshots.set(extended, made);
    return made;
  };

  const isCurrent = ({ revision, services }: StoreState): boolean => {
    const later = changesSince(revision);
    return later !== undefined && later.services.length <= Math.max(1, services.length * MOST_CHANGED);
  };

  const shared = (key: string, extended: boolean, changes: StoreDifference): Chunks => {
    const known = steps.get(key);
    if (known !== undefined) return known;
    const made = sharedChunks(difference(changes, views.get(extended)!));
    steps.set(key, made);
    if (steps.size > STEPS_KEPT) steps.delete(steps.keys().next().value!);
    return made;
  };

  const step = (from: number, extended: boolean, services: StoreDifference["services"]): Chunks =>
    shared(`${from} ${extended}`, extended, { services, scoped: [] });
  const scoped = (extended: boolean, objects: StoreDifference["scoped"]): Chunks =>
    shared(`scoped ${extended}`, extended, { services: [], scoped: objects });

  return { whole, step, scoped, dropSteps: () => steps.clear() };
}

/** The local views and their snapshots. Cached messages are dropped after some time. */
function createSharedLocalViews(store: Store, clock: Clock, changesSince: Store["since"]) {
  // By kind of view.
  const kept = new Map<boolean, { readonly views: LocalViews; snapshot: LocalSnapshot | undefined }>();

  const entryOf = (extended: boolean) => {
    const known = kept.get(extended);
    if (known !== undefined) return known;
    const made = { views: createLocalViews(extended), snapshot: undefined };
    kept.set(extended, made);
    clock.schedule(WHOLE_STATE_MS, () => kept.delete(extended));
    return made;
  };

  return {
    of: (extended: boolean) => entryOf(extended).views,
    snapshot(extended: boolean): LocalSnapshot {
      const entry = entryOf(extended);
      const { snapshot } = entry;
      if (snapshot !== undefined && changesSince(snapshot.state.revision) !== undefined) return snapshot;
      return entry.snapshot = createLocalSnapshot(store.state(), entry.views);
    },
  };
}

/** Every service as changed: in another zone, all of them can differ. */
function allServices(
  { services }: StoreState,
  changed: readonly Change<ServiceState>[],
): readonly Change<ServiceState>[] {
  const keyOf = ({ namespace, name }: ServiceState) => serviceKey(namespace, name);
  const changedKeys = new Set(changed.map(({ before, after }) => keyOf((before ?? after)!)));
  const others = services.filter((state) => !changedKeys.has(keyOf(state)));
  return [...changed, ...others.map((state) => ({ before: state, after: state }))];
}
