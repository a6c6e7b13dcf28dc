/**
 * The cluster's state with recent revisions, for watchers.
 *
 *   versions.ts  values with the versions that were replaced
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
  type Service,
  type ServiceCIDR,
  type SourceSink,
} from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { createResetTracker, sameSlice, type ServiceKey, serviceKey } from "../../core/tracking/mod.ts";
import { type Clock, FAMILIES, sameData } from "../../platform/mod.ts";
import { type Change, createVersions, type Versions } from "./versions.ts";

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

/** The objects of a store with their versions, and who waits for new ones. */
interface Versioned {
  readonly clock: Clock;
  readonly services: Versions<ServiceState>;
  readonly scoped: Versions<ClusterScoped>;
  readonly serviceOfSlice: Map<string, ServiceKey>;
  readonly unsynced: Set<Kind>;
  readonly listeners: Set<() => void>;
  revision: number;
  /** The last revision that the listeners know. */
  announced: number;
  isScheduled: boolean;
  cached?: StoreState;
}

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
  const unsynced = new Set<Kind>(KINDS), listeners = new Set<() => void>(), confirmation = createResetTracker();
  const versioned: Versioned = {
    ...{ clock, services, scoped, serviceOfSlice: new Map(), unsynced, listeners },
    ...{ revision: 0, announced: 0, isScheduled: false },
  };

  return {
    set(object) {
      confirmation.confirm(refOf(object));
      apply(versioned, object);
    },
    delete(ref) {
      confirmation.confirm(ref);
      remove(versioned, ref);
    },
    reset(kind) {
      confirmation.start(kind, known(versioned, kind));
    },
    synced(kind) {
      for (const ref of confirmation.finish(kind)) remove(versioned, ref);
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (!isLast) return;
      // Watchers must learn that the state is complete, even if it is empty.
      versioned.revision++;
      commitSoon(versioned);
    },
    problems: onProblems,
    ready: () => unsynced.size === 0,
    revision: () => commit(versioned),
    state() {
      const revision = commit(versioned);
      if (versioned.cached?.revision === revision) return versioned.cached;
      return versioned.cached = {
        revision,
        services: sortedValues(services.values),
        scoped: sortedValues(scoped.values),
      };
    },
    since(past) {
      commit(versioned);
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

/** Makes the changes since the last revision a new one, if there are any; returns the newest. */
function commit(versioned: Versioned): number {
  const next = versioned.revision + 1;
  const hasNewServices = versioned.services.commit(next), hasNewScoped = versioned.scoped.commit(next);
  if (hasNewServices || hasNewScoped) versioned.revision = next;
  return versioned.revision;
}

function commitSoon(versioned: Versioned): void {
  if (versioned.isScheduled || versioned.unsynced.size > 0) return;
  versioned.isScheduled = true;
  versioned.clock.schedule(GATHERING_MS, () => {
    versioned.isScheduled = false;
    if (commit(versioned) === versioned.announced) return;
    versioned.announced = versioned.revision;
    for (const listener of [...versioned.listeners]) listener();
  });
}

function stateOf({ services }: Versioned, namespace: string, name: string): ServiceState {
  return services.values.get(serviceKey(namespace, name)) ?? { namespace, name, service: undefined, slices: [] };
}

function putService(versioned: Versioned, key: ServiceKey, state: ServiceState | undefined): void {
  versioned.services.put(key, state);
  commitSoon(versioned);
}

function putScoped(versioned: Versioned, kind: Kind, name: string, object: ClusterScoped | undefined): void {
  const key = scopedKey(kind, name);
  if (sameData(versioned.scoped.values.get(key), object)) return;
  versioned.scoped.put(key, object);
  commitSoon(versioned);
}

function putSlice(versioned: Versioned, slice: EndpointSlice): void {
  const { serviceOfSlice } = versioned;
  const sliceKey = serviceKey(slice.namespace, slice.name);
  const key = serviceKey(slice.namespace, slice.serviceName);
  if (serviceOfSlice.get(sliceKey) !== key) removeSlice(versioned, slice.namespace, slice.name);
  serviceOfSlice.set(sliceKey, key);
  const state = stateOf(versioned, slice.namespace, slice.serviceName);
  const before = state.slices.find(({ name }) => name === slice.name);
  if (before === undefined || !sameSlice(before, slice)) putService(versioned, key, withSlice(state, slice));
}

function removeSlice(versioned: Versioned, namespace: string, name: string): void {
  const sliceKey = serviceKey(namespace, name);
  const key = versioned.serviceOfSlice.get(sliceKey);
  if (key === undefined) return;
  versioned.serviceOfSlice.delete(sliceKey);
  putService(versioned, key, withoutSlice(versioned.services.values.get(key)!, name));
}

function apply(versioned: Versioned, object: ClusterObject): void {
  if (object.kind === "EndpointSlice") return putSlice(versioned, object);
  // Labels are not passed on: weights by label need the API server.
  if (object.kind === "NodeLabels" || object.kind === "PodLabels") return;
  if (object.kind !== "Service") return putScoped(versioned, object.kind, object.name, object);
  putServiceObject(versioned, object.namespace, object.name, object);
}

function remove(versioned: Versioned, { kind, namespace, name }: ObjectRef): void {
  if (kind === "EndpointSlice") return removeSlice(versioned, namespace, name);
  if (kind !== "Service") return putScoped(versioned, kind, name, undefined);
  putServiceObject(versioned, namespace, name, undefined);
}

function putServiceObject(versioned: Versioned, namespace: string, name: string, service: Service | undefined): void {
  const state = stateOf(versioned, namespace, name);
  if (!sameData(state.service, service)) {
    putService(versioned, serviceKey(namespace, name), withService(state, service));
  }
}

function known({ services, scoped }: Versioned, kind: Kind): Iterable<ObjectRef> {
  const states = services.values.values();
  if (kind === "EndpointSlice") return states.flatMap(({ slices }) => slices.map(refOf));
  if (kind !== "Service") return scoped.values.values().filter((object) => object.kind === kind).map(refOf);
  return states.flatMap(({ service }) => service === undefined ? [] : [refOf(service)]);
}

function scopedKey(kind: Kind, name: string): string {
  return `${kind} ${name}`;
}

function sortedValues<T>(values: ReadonlyMap<string, T>): readonly T[] {
  return [...values].sort(([a], [b]) => a < b ? -1 : 1).map(([, value]) => value);
}

/** The state of one service; immutable. */
export interface ServiceState {
  readonly namespace: string;
  readonly name: string;
  /** Undefined if there are only slices. */
  readonly service: Service | undefined;
  /** Sorted by family and name. */
  readonly slices: readonly EndpointSlice[];
}

/** The state with this service; undefined if it is empty. */
function withService(state: ServiceState, service: Service | undefined): ServiceState | undefined {
  return service === undefined && state.slices.length === 0 ? undefined : { ...state, service };
}

/** The state with this slice added or replaced. */
function withSlice(state: ServiceState, slice: EndpointSlice): ServiceState {
  const others = state.slices.filter(({ name }) => name !== slice.name);
  const position = others.findIndex((other) =>
    slice.family === other.family ? slice.name < other.name : slice.family === FAMILIES[0]
  );
  return { ...state, slices: others.toSpliced(position === -1 ? others.length : position, 0, slice) };
}

/** The state without a slice; undefined if it is empty. */
function withoutSlice(state: ServiceState, name: string): ServiceState | undefined {
  const slices = state.slices.filter((slice) => slice.name !== name);
  return state.service === undefined && slices.length === 0 ? undefined : { ...state, slices };
}

/** Whether two states are equal. */
function sameState(a: ServiceState | undefined, b: ServiceState | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || a.slices.length !== b.slices.length) return false;
  if (a.service !== b.service && !sameData(a.service, b.service)) return false;
  return a.slices.every((slice, i) => slice === b.slices[i] || sameSlice(slice, b.slices[i]!));
}

/** An estimate of a state's memory: the number of its objects and endpoints. */
function weightOf({ slices }: ServiceState): number {
  return slices.reduce((sum, { endpoints }) => sum + 1 + endpoints.length, 1);
}
