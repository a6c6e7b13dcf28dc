import { sameData } from "../../platform/mod.ts";
import {
  differsInEndpointsOnly,
  editsSize,
  endpointEdits,
  type FamilyDelta,
  type FamilySettings,
  frontendsOf,
  kernelSize,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../model/mod.ts";

/** The planned state of one family, and how it differs from the state last sent to the worker. */
export interface OutgoingState {
  /** Sets a service port, or deletes it if `port` is undefined. */
  put(key: ServicePortKey, port: ServicePort | undefined): void;
  configure(settings: FamilySettings): void;
  /** Marks the service ports set so far as the first batch, which is sent before the rest. */
  markHead(): void;
  /** Marks the state as complete: the rest may be sent. */
  start(): void;
  /** The delta to send next, with a part of the changes if there are many; undefined if there is nothing to send. */
  next(): FamilyDelta | undefined;
  /** Records that `next`'s delta was sent. */
  markSent(delta: FamilyDelta): void;
  /** Forgets the sent state: the worker has lost it. */
  forgetSent(): void;
  /** The state last sent; undefined if the next delta must be a full snapshot. */
  sent(): SentState | undefined;
  /** Whether everything that can be sent was sent. */
  isSent(): boolean;
  /** Whether the settings equal these. */
  hasSettings(settings: FamilySettings): boolean;
  /** The revision last sent; 0 before the first. */
  revision(): number;
  /** The number of service ports with unsent changes. */
  pending(): number;
  /** The number of service ports. */
  size(): number;
}

/** The state last sent. */
export interface SentState {
  readonly revision: number;
  readonly settings: FamilySettings;
  readonly isHead: boolean;
}

/** Creates an empty state; nothing was sent yet. */
export function createOutgoingState(): OutgoingState {
  const ports = new Map<ServicePortKey, ServicePort>();
  // The last sent version of each service port that has changed since; undefined if it was never sent.
  const differing = new Map<ServicePortKey, ServicePort | undefined>();
  const state: {
    settings?: FamilySettings;
    sent?: SentState;
    revision: number;
    head: ReadonlySet<ServicePortKey>;
    hasStarted: boolean;
  } = { revision: 0, head: new Set(), hasStarted: false };

  /** Undefined without a first batch. Its service ranges stay open until all services are known. */
  const headDelta = (settings: FamilySettings): FamilyDelta | undefined => {
    const set = [...state.head].flatMap((key) => ports.get(key) ?? []);
    if (set.length === 0) return undefined;
    const open = { ...settings, serviceRanges: [] };
    return { revision: state.revision + 1, base: undefined, settings: open, set, deleted: [], part: "head" };
  };

  const changesSince = (sent: SentState, settings: FamilySettings): FamilyDelta => {
    const set: ServicePort[] = [];
    const deleted: ServicePortKey[] = [];
    const keys = sent.isHead ? differing.keys() : nextPortion(differing, (key) => ports.get(key));
    for (const key of keys) {
      const port = ports.get(key);
      if (port === undefined) deleted.push(key);
      else set.push(port);
    }
    const changed = sameData(sent.settings, settings) ? undefined : settings;
    return { revision: state.revision + 1, base: sent.revision, settings: changed, set, deleted };
  };

  const isSent = () =>
    state.sent !== undefined && differing.size === 0 && sameData(state.sent.settings, state.settings);

  return {
    put(key, port) {
      const before = ports.get(key);
      if (sameData(before, port)) return;
      if (port === undefined) ports.delete(key);
      else ports.set(key, port);
      if (state.sent === undefined) return;
      if (!differing.has(key)) differing.set(key, before);
      else if (sameData(differing.get(key), port)) differing.delete(key);
    },
    configure: (settings) => void (state.settings = settings),
    markHead: () => void (state.head = new Set(ports.keys())),
    start: () => void (state.hasStarted = true),
    next() {
      const { settings, sent, hasStarted, revision } = state;
      if (settings === undefined) return undefined;
      const head = sent === undefined ? headDelta(settings) : undefined;
      if (head !== undefined || !hasStarted) return head;
      if (sent === undefined) {
        return { revision: revision + 1, base: undefined, settings, set: [...ports.values()], deleted: [] };
      }
      if (sent.isHead) return { ...changesSince(sent, settings), part: "rest" };
      return isSent() ? undefined : changesSince(sent, settings);
    },
    markSent(delta) {
      const isHead = delta.part === "head";
      state.revision = delta.revision;
      state.sent = { revision: delta.revision, settings: delta.settings ?? state.settings!, isHead };
      for (const port of delta.set) differing.delete(servicePortKey(port.name, port.protocol));
      for (const key of delta.deleted) differing.delete(key);
      if (isHead) { for (const key of ports.keys()) if (!state.head.has(key)) differing.set(key, undefined); }
    },
    forgetSent() {
      state.sent = undefined;
      differing.clear();
    },
    sent: () => state.sent,
    isSent,
    hasSettings: (other) => sameData(other, state.settings),
    revision: () => state.revision,
    pending: () => state.sent === undefined ? ports.size : differing.size,
    size: () => ports.size,
  };
}

/** The last sent and the current version of a service port; undefined where it did not or does not exist. */
interface Change {
  readonly key: ServicePortKey;
  readonly before: ServicePort | undefined;
  readonly after: ServicePort | undefined;
  readonly size: number;
}

/** The size of a portion, as `kernelSize` counts: about 0.1 s of the kernel's tools. */
const PORTION = 5_000;

/**
 * The service ports to send next: all, or above the limit, the smallest changes plus the first one beyond the limit, so that
 * large changes are not starved by small ones. A frontend that moves between service ports leaves the old one first or in the
 * same portion.
 * @param differing the last sent version of each service port that has changed
 */
function nextPortion(
  differing: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
  current: (key: ServicePortKey) => ServicePort | undefined,
): Iterable<ServicePortKey> {
  let total = 0;
  const changes = [...differing].map(([key, before]): Change => {
    const after = current(key);
    const size = changeSize(before, after);
    total += size;
    return { key, before, after, size };
  });
  if (total <= PORTION) return differing.keys();
  changes.sort((a, b) => a.size - b.size);
  let taken = 0, size = 0;
  while (taken < changes.length && size < PORTION) size += changes[taken++]!.size;
  return withReleases(changes.slice(0, taken), changes.slice(taken)).map(({ key }) => key);
}

/** The size of a change: where only endpoints differ, the rest of a service port is left as it is. */
function changeSize(before: ServicePort | undefined, after: ServicePort | undefined): number {
  if (
    before && after && after.balance === undefined && after.affinitySeconds === 0 &&
    differsInEndpointsOnly(before, after)
  ) {
    return editsSize(endpointEdits(before, after)) * frontendsOf(after).length;
  }
  return Math.max(before ? kernelSize(before) : 0, after ? kernelSize(after) : 0);
}

/** Adds the changes that release a frontend for a chosen one. */
function withReleases(chosen: Change[], others: readonly Change[]): readonly Change[] {
  const holders = new Map<string, Change>();
  for (const change of others) {
    if (change.before === undefined || change.before === change.after) continue;
    const kept = new Set(change.after && identifiersOf(change.after));
    for (const id of identifiersOf(change.before)) if (!kept.has(id)) holders.set(id, change);
  }
  if (holders.size === 0) return chosen;
  const all = new Set(chosen);
  // The set grows while it is read: a change that was added may need another one.
  for (const { after } of all) {
    for (const id of after ? identifiersOf(after) : []) {
      const holder = holders.get(id);
      if (holder !== undefined) all.add(holder);
    }
  }
  return [...all];
}

function identifiersOf(port: ServicePort): string[] {
  return frontendsOf(port).map(({ protocol, address, port }) => `${protocol} ${address} ${port}`);
}
