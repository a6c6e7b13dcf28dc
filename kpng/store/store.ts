/** The cluster's state for watchers: services with their slices, and cluster-scoped objects, with revisions. */
import {
  type ClusterObject,
  type EndpointSlice,
  type Kind,
  KINDS,
  type Node,
  type ObjectRef,
  refOf,
  type ServiceCIDR,
  type SourceSink,
} from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { createResetTracker, sameSlice, type ServiceKey, serviceKey } from "../../core/tracking/mod.ts";
import { type Clock, sameData } from "../../platform/mod.ts";
import { sameState, type ServiceState, weightOf, withoutSlice, withService, withSlice } from "./service_state.ts";

/** A cluster-scoped object. */
export type ClusterScoped = Node | ServiceCIDR;

/** The state at a revision; immutable. */
export interface StoreState {
  readonly revision: number;
  /** Sorted by key (`namespace/name`). */
  readonly services: readonly ServiceState[];
  /** Sorted by kind and name. */
  readonly scoped: readonly ClusterScoped[];
}

/** A change of a value. */
export interface Change<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}

/** The difference to an earlier revision, in the order of the first changes. */
export interface StoreDifference {
  readonly services: readonly Change<ServiceState>[];
  readonly scoped: readonly Change<ClusterScoped>[];
}

/** The cluster's state, reported by a source. */
export interface Store extends SourceSink {
  /** Whether every kind has been synced; before that, the state is incomplete. */
  ready(): boolean;
  /** Grows with every change; all changes of one turn are one revision. */
  revision(): number;
  state(): StoreState;
  /** The difference since a revision; undefined if that is too old and a full snapshot is needed. Undone changes are omitted. */
  since(revision: number): StoreDifference | undefined;
  node(name: string): Node | undefined;
  /** Calls `listener` after every new revision of a ready store, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

/** How long changes are collected for one revision. */
const GATHERING_MS = 2;

/** An empty store. */
export function createStore({ clock, onProblems, leastHistory = 1000 }: {
  readonly clock: Clock;
  readonly onProblems: ReportProblems;
  /**
   * The minimum limit for the history, in services and endpoints; 1000 by default. The limit is this or the weight of the current
   * state, whichever is greater.
   */
  readonly leastHistory?: number;
}): Store {
  const objects = createObjects(() => commitSoon());
  const { services, scoped } = objects;
  const revisions = createRevisions(objects, leastHistory);
  const unsynced = new Set<Kind>(KINDS);
  const confirmation = createResetTracker();
  const listeners = new Set<() => void>();
  let announced = 0;
  let isScheduled = false;
  let cached: StoreState | undefined;

  const commitSoon = () => {
    if (isScheduled || unsynced.size > 0) return;
    isScheduled = true;
    clock.schedule(GATHERING_MS, () => {
      isScheduled = false;
      const revision = revisions.commit();
      if (revision === announced) return;
      announced = revision;
      for (const listener of [...listeners]) listener();
    });
  };

  return {
    set(object) {
      confirmation.confirm(refOf(object));
      objects.apply(object);
    },
    delete(ref) {
      confirmation.confirm(ref);
      objects.remove(ref);
    },
    reset(kind) {
      confirmation.start(kind, objects.known(kind));
    },
    synced(kind) {
      for (const ref of confirmation.finish(kind)) objects.remove(ref);
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (!isLast) return;
      // Watchers must learn that the state is complete, even if it is empty.
      revisions.advance();
      commitSoon();
    },
    problems: onProblems,
    ready: () => unsynced.size === 0,
    revision: revisions.commit,
    state() {
      const revision = revisions.commit();
      if (cached?.revision === revision) return cached;
      cached = {
        revision,
        services: [...services].sort(([a], [b]) => a < b ? -1 : 1).map(([, state]) => state),
        scoped: [...scoped].sort(([a], [b]) => a < b ? -1 : 1).map(([, object]) => object),
      };
      return cached;
    },
    since: revisions.since,
    node: (name) => scoped.get(scopedKey("Node", name)) as Node | undefined,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The current objects; calls `onChange` after every change. */
function createObjects(onChange: () => void) {
  const services = new Map<ServiceKey, ServiceState>();
  const scoped = new Map<string, ClusterScoped>();
  const serviceOfSlice = new Map<string, ServiceKey>();
  // The values at the last revision of what changed since.
  const touchedServices = new Map<ServiceKey, ServiceState | undefined>();
  const touchedScoped = new Map<string, ClusterScoped | undefined>();

  const stateOf = (key: ServiceKey, namespace: string, name: string): ServiceState => (
    services.get(key) ?? { namespace, name, service: undefined, slices: [] }
  );

  const put = (key: ServiceKey, state: ServiceState | undefined) => {
    if (!touchedServices.has(key)) touchedServices.set(key, services.get(key));
    if (state === undefined) services.delete(key);
    else services.set(key, state);
    onChange();
  };

  const putScoped = (kind: Kind, name: string, object: ClusterScoped | undefined) => {
    const key = scopedKey(kind, name);
    if (sameData(scoped.get(key), object)) return;
    if (!touchedScoped.has(key)) touchedScoped.set(key, scoped.get(key));
    if (object === undefined) scoped.delete(key);
    else scoped.set(key, object);
    onChange();
  };

  const putSlice = (slice: EndpointSlice) => {
    const sliceKey = serviceKey(slice.namespace, slice.name);
    const key = serviceKey(slice.namespace, slice.serviceName);
    if (serviceOfSlice.get(sliceKey) !== key) removeSlice(slice.namespace, slice.name);
    serviceOfSlice.set(sliceKey, key);
    const state = stateOf(key, slice.namespace, slice.serviceName);
    const before = state.slices.find(({ name }) => name === slice.name);
    if (before === undefined || !sameSlice(before, slice)) put(key, withSlice(state, slice));
  };

  const removeSlice = (namespace: string, name: string) => {
    const sliceKey = serviceKey(namespace, name);
    const key = serviceOfSlice.get(sliceKey);
    if (key === undefined) return;
    serviceOfSlice.delete(sliceKey);
    put(key, withoutSlice(services.get(key)!, name));
  };

  const apply = (object: ClusterObject) => {
    if (object.kind === "EndpointSlice") return putSlice(object);
    // Labels are not passed on: weights by label need the API server.
    if (object.kind === "NodeLabels" || object.kind === "PodLabels") return;
    if (object.kind !== "Service") return putScoped(object.kind, object.name, object);
    const key = serviceKey(object.namespace, object.name);
    const state = stateOf(key, object.namespace, object.name);
    if (!sameData(state.service, object)) put(key, withService(state, object));
  };

  const remove = ({ kind, namespace, name }: ObjectRef) => {
    if (kind === "EndpointSlice") return removeSlice(namespace, name);
    if (kind !== "Service") return putScoped(kind, name, undefined);
    const key = serviceKey(namespace, name);
    const state = services.get(key);
    if (state?.service !== undefined) put(key, withService(state, undefined));
  };

  const known = (kind: Kind): Iterable<ObjectRef> => {
    if (kind === "EndpointSlice") return services.values().flatMap(({ slices }) => slices.map(refOf));
    if (kind !== "Service") return scoped.values().filter((object) => object.kind === kind).map(refOf);
    return services.values().flatMap(({ service }) => service === undefined ? [] : [refOf(service)]);
  };

  return { services, scoped, touchedServices, touchedScoped, apply, remove, known };
}

/** The revisions of these objects, and the history behind them. */
function createRevisions(objects: ReturnType<typeof createObjects>, leastHistory: number) {
  const { services, scoped, touchedServices, touchedScoped } = objects;
  const serviceHistory = createHistory<ServiceState>();
  const scopedHistory = createHistory<ClusterScoped>();
  let revision = 0;
  let weight = 0;

  /** Makes the changes since the last revision a new one, if there are any; returns the newest. */
  const commit = (): number => {
    const next = revision + 1;
    for (const [key, before] of touchedServices) {
      const after = services.get(key);
      if (sameState(before, after)) continue;
      revision = next;
      serviceHistory.add(revision, key, before, weightOf(before));
      weight += (after === undefined ? 0 : weightOf(after)) - (before === undefined ? 0 : weightOf(before));
    }
    for (const [key, before] of touchedScoped) {
      if (sameData(before, scoped.get(key))) continue;
      revision = next;
      scopedHistory.add(revision, key, before, 1);
    }
    touchedServices.clear();
    touchedScoped.clear();
    serviceHistory.trim(Math.max(leastHistory, weight));
    scopedHistory.trim(Math.max(leastHistory, scoped.size));
    return revision;
  };

  return {
    commit,
    /** Starts a revision without a change. */
    advance() {
      revision++;
    },
    since(past: number): StoreDifference | undefined {
      commit();
      const changedServices = serviceHistory.since(past);
      const changedScoped = scopedHistory.since(past);
      if (changedServices === undefined || changedScoped === undefined) return undefined;
      return {
        services: Array.from(changedServices, ([key, before]) => ({ before, after: services.get(key) }))
          .filter(({ before, after }) => !sameState(before, after)),
        scoped: Array.from(changedScoped, ([key, before]) => ({ before, after: scoped.get(key) }))
          .filter(({ before, after }) => !sameData(before, after)),
      };
    },
  };
}

function scopedKey(kind: Kind, name: string): string {
  return `${kind} ${name}`;
}

/** The replaced versions of values, newest last, with a limit on their total weight. */
interface History<T> {
  /** `before` was replaced at this revision. Revisions only grow. */
  add(revision: number, key: string, before: T | undefined, weight: number): void;
  /** Drops the oldest versions until the rest weighs at most this. */
  trim(mostWeight: number): void;
  /** The values at `revision` of everything that changed since, by key; undefined if no longer known. */
  since(revision: number): ReadonlyMap<string, T | undefined> | undefined;
}

interface Entry<T> {
  readonly revision: number;
  readonly key: string;
  readonly before: T | undefined;
  readonly weight: number;
}

/** The number of dropped entries at the front of the list after which it is cut. */
const SLACK = 1024;

/** An empty history. */
function createHistory<T>(): History<T> {
  let entries: (Entry<T> | undefined)[] = [];
  let first = 0;
  let weight = 0;
  // The revision after which every change is known.
  let floor = 0;

  const firstAfter = (revision: number): number => {
    let low = first, high = entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle]!.revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  return {
    add(revision, key, before, entryWeight) {
      entries.push({ revision, key, before, weight: entryWeight });
      weight += entryWeight;
    },
    trim(mostWeight) {
      while (weight > mostWeight && first < entries.length) {
        const { revision, weight: gone } = entries[first]!;
        entries[first++] = undefined;
        weight -= gone;
        floor = revision;
      }
      if (first < SLACK) return;
      entries = entries.slice(first);
      first = 0;
    },
    since(revision) {
      if (revision < floor) return undefined;
      const found = new Map<string, T | undefined>();
      for (let i = firstAfter(revision); i < entries.length; i++) {
        const { key, before } = entries[i]!;
        if (!found.has(key)) found.set(key, before);
      }
      return found;
    },
  };
}
