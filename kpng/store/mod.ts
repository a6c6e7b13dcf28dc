/**
 * The cluster's state with recent revisions, for watchers.
 *
 *   versions.ts       values with the versions that were replaced
 *   service_state.ts  the state of one service
 *
 * In: objects from a source. Out: the state, and differences between revisions. May touch: the clock.
 */
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
import { type Change, createVersions } from "./versions.ts";
export type { ServiceState } from "./service_state.ts";
export type { Change } from "./versions.ts";

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

/** The time for which changes are collected for one revision. */
const GATHERING_MS = 2;

/** An empty store. */
export function createStore({ clock, onProblems, leastHistory: leastWeight = 1000 }: {
  readonly clock: Clock;
  readonly onProblems: ReportProblems;
  /**
   * The minimum limit for the history, in services and endpoints; 1000 by default. The limit is this or the weight of the current
   * state, whichever is greater.
   */
  readonly leastHistory?: number;
}): Store {
  const services = createVersions<ServiceState>({ isSame: sameState, weightOf, leastWeight });
  const scoped = createVersions<ClusterScoped>({ isSame: sameData, weightOf: () => 1, leastWeight });
  const serviceOfSlice = new Map<string, ServiceKey>();
  const unsynced = new Set<Kind>(KINDS);
  const confirmation = createResetTracker();
  const listeners = new Set<() => void>();
  let revision = 0;
  let announced = 0;
  let isScheduled = false;
  let cached: StoreState | undefined;

  /** Makes the changes since the last revision a new one, if there are any; returns the newest. */
  const commit = (): number => {
    const hasNewServices = services.commit(revision + 1), hasNewScoped = scoped.commit(revision + 1);
    if (hasNewServices || hasNewScoped) revision++;
    return revision;
  };

  const commitSoon = () => {
    if (isScheduled || unsynced.size > 0) return;
    isScheduled = true;
    clock.schedule(GATHERING_MS, () => {
      isScheduled = false;
      if (commit() === announced) return;
      announced = revision;
      for (const listener of [...listeners]) listener();
    });
  };

  const stateOf = (namespace: string, name: string): ServiceState =>
    services.values.get(serviceKey(namespace, name)) ?? { namespace, name, service: undefined, slices: [] };

  const putService = (key: ServiceKey, state: ServiceState | undefined) => {
    services.put(key, state);
    commitSoon();
  };

  const putScoped = (kind: Kind, name: string, object: ClusterScoped | undefined) => {
    const key = scopedKey(kind, name);
    if (sameData(scoped.values.get(key), object)) return;
    scoped.put(key, object);
    commitSoon();
  };

  const putSlice = (slice: EndpointSlice) => {
    const sliceKey = serviceKey(slice.namespace, slice.name);
    const key = serviceKey(slice.namespace, slice.serviceName);
    if (serviceOfSlice.get(sliceKey) !== key) removeSlice(slice.namespace, slice.name);
    serviceOfSlice.set(sliceKey, key);
    const state = stateOf(slice.namespace, slice.serviceName);
    const before = state.slices.find(({ name }) => name === slice.name);
    if (before === undefined || !sameSlice(before, slice)) putService(key, withSlice(state, slice));
  };

  const removeSlice = (namespace: string, name: string) => {
    const sliceKey = serviceKey(namespace, name);
    const key = serviceOfSlice.get(sliceKey);
    if (key === undefined) return;
    serviceOfSlice.delete(sliceKey);
    putService(key, withoutSlice(services.values.get(key)!, name));
  };

  const apply = (object: ClusterObject) => {
    if (object.kind === "EndpointSlice") return putSlice(object);
    // Labels are not passed on: weights by label need the API server.
    if (object.kind === "NodeLabels" || object.kind === "PodLabels") return;
    if (object.kind !== "Service") return putScoped(object.kind, object.name, object);
    const state = stateOf(object.namespace, object.name);
    if (sameData(state.service, object)) return;
    putService(serviceKey(object.namespace, object.name), withService(state, object));
  };

  const remove = ({ kind, namespace, name }: ObjectRef) => {
    if (kind === "EndpointSlice") return removeSlice(namespace, name);
    if (kind !== "Service") return putScoped(kind, name, undefined);
    const state = stateOf(namespace, name);
    if (state.service !== undefined) putService(serviceKey(namespace, name), withService(state, undefined));
  };

  const known = (kind: Kind): Iterable<ObjectRef> => {
    const states = services.values.values();
    if (kind === "EndpointSlice") return states.flatMap(({ slices }) => slices.map(refOf));
    if (kind !== "Service") return scoped.values.values().filter((object) => object.kind === kind).map(refOf);
    return states.flatMap(({ service }) => service === undefined ? [] : [refOf(service)]);
  };

  return {
    set(object) {
      confirmation.confirm(refOf(object));
      apply(object);
    },
    delete(ref) {
      confirmation.confirm(ref);
      remove(ref);
    },
    reset(kind) {
      confirmation.start(kind, known(kind));
    },
    synced(kind) {
      for (const ref of confirmation.finish(kind)) remove(ref);
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (!isLast) return;
      // Watchers must learn that the state is complete, even if it is empty.
      revision++;
      commitSoon();
    },
    problems: onProblems,
    ready: () => unsynced.size === 0,
    revision: commit,
    state() {
      if (cached?.revision === commit()) return cached;
      cached = { revision, services: sortedValues(services.values), scoped: sortedValues(scoped.values) };
      return cached;
    },
    since(past) {
      commit();
      const changed = { services: services.since(past), scoped: scoped.since(past) };
      return changed.services && changed.scoped && { services: changed.services, scoped: changed.scoped };
    },
    node: (name) => scoped.values.get(scopedKey("Node", name)) as Node | undefined,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function scopedKey(kind: Kind, name: string): string {
  return `${kind} ${name}`;
}

function sortedValues<T>(values: ReadonlyMap<string, T>): readonly T[] {
  return [...values].sort(([a], [b]) => a < b ? -1 : 1).map(([, value]) => value);
}
