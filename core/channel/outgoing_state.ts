import { sameData } from "../../platform/mod.ts";
import { type FamilyDelta, type FamilySettings, type ServicePort, type ServicePortKey } from "../model/mod.ts";

/** The planned state of one family, and how it differs from the state last sent to the worker. */
export interface OutgoingState {
  /** Sets a service port, or deletes it if `port` is undefined. */
  put(key: ServicePortKey, port: ServicePort | undefined): void;
  /** Adds endpoints that are gone to the next delta that is no head. */
  addGone(endpoints: readonly string[]): void;
  configure(settings: FamilySettings): void;
  /** Marks the service ports set until now as the head, which is sent before the rest. */
  markHead(): void;
  /** Marks the state as complete: the rest may be sent. */
  start(): void;
  /** The delta to send next; undefined if there is nothing to send. */
  next(): FamilyDelta | undefined;
  /** Records that `next`'s delta was sent. */
  markSent(delta: FamilyDelta): void;
  /** Forgets what was sent: the worker has lost it. */
  forgetSent(): void;
  /** The state last sent; undefined if the next delta must be a full snapshot. */
  sent(): SentState | undefined;
  /** Whether everything that can be sent was sent. */
  isSent(): boolean;
  /** Whether the settings equal these. */
  hasSettings(settings: FamilySettings): boolean;
  /** The revision last sent; 0 before the first. */
  revision(): number;
  /** The number of service ports that differ from what was last sent. */
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
  // For each service port that differs from what was last sent: what was sent, or undefined if it was not.
  const differing = new Map<ServicePortKey, ServicePort | undefined>();
  const gone = new Set<string>();
  const withGone = (delta: FamilyDelta): FamilyDelta => gone.size === 0 ? delta : { ...delta, gone: [...gone] };
  let settings: FamilySettings | undefined;
  let sent: SentState | undefined;
  let revision = 0;
  let head: ReadonlySet<ServicePortKey> = new Set();
  let started = false;

  /** Undefined without a head. Its service ranges stay open until all services are known. */
  const headDelta = (settings: FamilySettings): FamilyDelta | undefined => {
    const set = [...head].flatMap((key) => ports.get(key) ?? []);
    if (set.length === 0) return undefined;
    const open = { ...settings, serviceRanges: [] };
    return { revision: revision + 1, base: undefined, settings: open, set, deleted: [], part: "head" };
  };

  const changesSince = (sent: SentState, settings: FamilySettings): FamilyDelta => {
    const set: ServicePort[] = [];
    const deleted: ServicePortKey[] = [];
    for (const key of differing.keys()) {
      const port = ports.get(key);
      if (port === undefined) deleted.push(key);
      else set.push(port);
    }
    const changed = sameData(sent.settings, settings) ? undefined : settings;
    return withGone({ revision: revision + 1, base: sent.revision, settings: changed, set, deleted });
  };

  const isSent = () =>
    sent !== undefined && differing.size === 0 && gone.size === 0 && sameData(sent.settings, settings);

  return {
    put(key, port) {
      const before = ports.get(key);
      if (sameData(before, port)) return;
      if (port === undefined) ports.delete(key);
      else ports.set(key, port);
      if (sent === undefined) return;
      if (!differing.has(key)) differing.set(key, before);
      else if (sameData(differing.get(key), port)) differing.delete(key);
    },
    addGone(endpoints) {
      for (const endpoint of endpoints) gone.add(endpoint);
    },
    configure(changed) {
      settings = changed;
    },
    markHead() {
      head = new Set(ports.keys());
    },
    start() {
      started = true;
    },
    next() {
      if (settings === undefined) return undefined;
      if (sent === undefined) {
        return headDelta(settings) ??
          (started ? withGone(snapshot(revision + 1, settings, [...ports.values()])) : undefined);
      }
      if (!started) return undefined;
      if (sent.isHead) return { ...changesSince(sent, settings), part: "rest" };
      return isSent() ? undefined : changesSince(sent, settings);
    },
    markSent(delta) {
      const isHead = delta.part === "head";
      revision = delta.revision;
      sent = { revision, settings: delta.settings ?? settings!, isHead };
      differing.clear();
      if (delta.gone) gone.clear();
      if (isHead) { for (const key of ports.keys()) if (!head.has(key)) differing.set(key, undefined); }
    },
    forgetSent() {
      sent = undefined;
      differing.clear();
    },
    sent: () => sent,
    isSent,
    hasSettings: (other) => sameData(other, settings),
    revision: () => revision,
    pending: () => sent === undefined ? ports.size : differing.size,
    size: () => ports.size,
  };
}

function snapshot(revision: number, settings: FamilySettings, set: readonly ServicePort[]): FamilyDelta {
  return { revision, base: undefined, settings, set, deleted: [] };
}
