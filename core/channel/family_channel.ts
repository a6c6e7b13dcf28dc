/** The snapshot channel: brings what is planned for one IP family to its worker, in deltas by revision. */
import { type Clock, type Logger, sameData } from "../../platform/mod.ts";
import { createBoundedFrequency } from "./bounded_frequency.ts";
import { createWorkBudget } from "./work_budget.ts";
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "./family_link.ts";
import {
  type Family,
  type FamilyDelta,
  type FamilySettings,
  type PacketCounts,
  type RuleDescription,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncReport,
} from "../model/mod.ts";
import { createIdleTimer, type RestDelays } from "./idle_worker.ts";

/** What a channel needs to know, and whom it tells. */
export interface FamilyChannelOptions {
  readonly family: Family;
  /** Starts the worker; called once, at once. */
  readonly connect: (listener: FamilyListener) => FamilyLink;
  /**
   * The least time between two messages on average, as kube-proxy's minSyncPeriod; 0 for none but what keeps syncs at
   * a fifth of the time.
   */
  readonly minSyncPeriodMs: number;
  /** How long the family must have been without service ports before its worker ends. */
  readonly restDelays: RestDelays;
  /** Whether the worker of this family may end now, as long as the family has no service ports. */
  readonly mayRest: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Everything changed until now is on its way as part of `revision`. It is in effect with the first report that is ok
   * and of this revision or a later one: revisions only grow, and a whole state sent after a worker's death has one too.
   */
  readonly onSend?: (revision: number) => void;
  readonly onReport?: (report: SyncReport) => void;
  readonly onHealth?: (health: FamilyHealth) => void;
}

/** One family's way to the kernel. All changes of one turn of the event loop travel together. */
export interface FamilyChannel {
  /** These service ports exist and look like this. */
  set(ports: Iterable<ServicePort>): void;
  /** These service ports are gone. */
  delete(keys: Iterable<ServicePortKey>): void;
  /** What holds for all service ports; nothing is sent before the first call. */
  configure(settings: FamilySettings): void;
  /**
   * The service ports set until now are to be in effect before all others: they are sent at once, as the head of the
   * state that `start` says is whole.
   */
  startAhead(): void;
  /** All sources are synced: from now on the worker is told. */
  start(): void;
  /** The revision that was last sent; 0 before the first. */
  revision(): number;
  /** What the kernel has for a service port; see `FamilyLink.describe`. */
  describe(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** What rules have counted; see `FamilyLink.packetCounts`. */
  packetCounts(): Promise<PacketCounts | undefined>;
  /** How many service ports are not as they were last sent. */
  pending(): number;
  /** Whether there are any service ports. */
  hasServicePorts(): boolean;
  /** See `FamilyLink.stop`. */
  stop(options?: StopOptions): Promise<void>;
}

/** The budget of syncs without a minSyncPeriod; no change waits longer for it than for kube-proxy's minSyncPeriod of 1 s. */
const SYNC_BUDGET = { share: 0.2, windowMs: 10_000, longestWaitMs: 1000 };
/** The work of a small sync beside what the worker measures: to track, plan, send and report a change. */
const WORK_BESIDE_SYNC_MS = 5;

/** What was last sent. */
interface Sent {
  readonly revision: number;
  readonly settings: FamilySettings;
  readonly isHead: boolean;
}

/**
 * A channel with a worker of its own. It has at most one message in flight; what changes meanwhile is merged, and what
 * is undone meanwhile is never sent, so that what waits is bounded by the number of service ports.
 */
export function createFamilyChannel(options: FamilyChannelOptions): FamilyChannel {
  const { clock } = options;
  const logger = options.logger.with({ family: options.family });
  const { minSyncPeriodMs } = options;
  const frequency = createBoundedFrequency({ periodMs: minSyncPeriodMs, burst: 2, clock });
  const budget = minSyncPeriodMs === 0 ? createWorkBudget({ ...SYNC_BUDGET, clock }) : undefined;

  const ports = new Map<ServicePortKey, ServicePort>();
  let settings: FamilySettings | undefined;

  // What was last sent; undefined where the next message must be the whole state.
  let sent: Sent | undefined;
  // By key, what was last sent of each service port that differs from it now; undefined for one that was not there.
  const differing = new Map<ServicePortKey, ServicePort | undefined>();

  let revision = 0;
  let inFlight: FamilyDelta | undefined;
  let head: ReadonlySet<ServicePortKey> = new Set();
  let started = false;
  let workerListens = false;
  let stopped: Promise<void> | undefined;
  // The revision that is in effect with nothing left to do for it.
  let finished: number | undefined;
  let hadServicePorts = false;
  // The settings in effect while the worker is away.
  let resting: { readonly settings: FamilySettings } | undefined;
  let flushIsDue = false;
  let cancelTimer: (() => void) | undefined;

  const change = (key: ServicePortKey, after: ServicePort | undefined) => {
    const before = ports.get(key);
    if (sameData(before, after)) return;
    if (after === undefined) ports.delete(key);
    else ports.set(key, after);
    hadServicePorts ||= ports.size > 0;
    if (sent === undefined) return;
    if (!differing.has(key)) differing.set(key, before);
    else if (sameData(differing.get(key), after)) differing.delete(key);
  };

  // At the end of the turn, so that what belongs together is not torn apart: one service's deletion, and another's
  // creation with the same address, say.
  const flushSoon = () => {
    if (flushIsDue) return;
    flushIsDue = true;
    queueMicrotask(() => {
      flushIsDue = false;
      wakeIfNeeded();
      flush();
      idle.note(isIdle(), hadServicePorts);
    });
  };

  const isIdle = () =>
    !stopped && ports.size === 0 && differing.size === 0 && sent !== undefined && sent.revision === finished &&
    sameData(sent.settings, settings);

  const idle = createIdleTimer({
    clock,
    delays: options.restDelays,
    onRest() {
      if (sent === undefined || !options.mayRest() || !link.rest()) return false;
      resting = sent;
      sent = undefined;
      workerListens = false;
      return true;
    },
  });

  const wakeIfNeeded = () => {
    if (stopped || resting === undefined || ports.size === 0 && sameData(resting.settings, settings)) return;
    resting = undefined;
    link.wake();
  };

  const flush = () => {
    if (!workerListens || stopped || inFlight !== undefined || cancelTimer) return;
    if (settings === undefined) return;
    const delta = nextDelta(settings);
    if (delta === undefined) return;
    const waitMs = budget?.waitMs() ?? frequency.waitMs();
    if (waitMs > 0) {
      cancelTimer = clock.schedule(Math.ceil(waitMs), () => {
        cancelTimer = undefined;
        flush();
      });
      return;
    }
    const isHead = delta.part === "head";
    revision = delta.revision;
    inFlight = delta;
    sent = { revision, settings: delta.settings ?? settings, isHead };
    differing.clear();
    if (isHead) {
      for (const key of ports.keys()) if (!head.has(key)) differing.set(key, undefined);
    } else {
      frequency.count();
    }
    logger.debug("sending changes to the worker", {
      revision,
      whole: delta.base === undefined,
      part: delta.part,
      set: delta.set.length,
      deleted: delta.deleted.length,
    });
    if (!isHead) options.onSend?.(revision);
    link.send(delta);
  };

  const nextDelta = (settings: FamilySettings): FamilyDelta | undefined => {
    if (sent === undefined) return headOf(settings) ?? (started ? wholeState(settings) : undefined);
    if (!started) return undefined;
    if (sent.isHead) return { ...changesSince(sent, settings), part: "rest" };
    const isSame = differing.size === 0 && sameData(sent.settings, settings);
    return isSame ? undefined : changesSince(sent, settings);
  };

  /** Undefined where there is no head. The ranges of services stay open until all services are known. */
  const headOf = (settings: FamilySettings): FamilyDelta | undefined => {
    const set = [...head].flatMap((key) => ports.get(key) ?? []);
    if (set.length === 0) return undefined;
    const open = { ...settings, serviceRanges: [] };
    return { revision: revision + 1, base: undefined, settings: open, set, deleted: [], part: "head" };
  };

  const wholeState = (settings: FamilySettings): FamilyDelta => (
    { revision: revision + 1, base: undefined, settings, set: [...ports.values()], deleted: [] }
  );

  const changesSince = (sent: Sent, settings: FamilySettings): FamilyDelta => {
    const settingsDiffer = !sameData(sent.settings, settings);
    const set: ServicePort[] = [];
    const deleted: ServicePortKey[] = [];
    for (const key of differing.keys()) {
      const port = ports.get(key);
      if (port === undefined) deleted.push(key);
      else set.push(port);
    }
    const base = sent.revision;
    return { revision: revision + 1, base, settings: settingsDiffer ? settings : undefined, set, deleted };
  };

  const link = options.connect({
    onReset() {
      workerListens = true;
      sent = undefined;
      inFlight = undefined;
      differing.clear();
      flushSoon();
    },
    onReport(report) {
      // A head's report says nothing of the state: it may only have been noted.
      const isOfHead = report.revision === sent?.revision && sent.isHead;
      if (!isOfHead) options.onReport?.(report);
      finished = report.unfinished || isOfHead ? undefined : report.revision;
      flushSoon();
      if (report.revision !== inFlight?.revision) return;
      // The long sync at the start says nothing of what changes will cost.
      if (inFlight.base !== undefined && inFlight.part === undefined) {
        budget?.spend(report.durationMs + WORK_BESIDE_SYNC_MS);
      }
      inFlight = undefined;
    },
    onHealth(health) {
      options.onHealth?.(health);
    },
  });

  return {
    set(changed) {
      for (const port of changed) change(servicePortKey(port.name, port.protocol), port);
      flushSoon();
    },
    delete(keys) {
      for (const key of keys) change(key, undefined);
      flushSoon();
    },
    configure(changed) {
      settings = changed;
      flushSoon();
    },
    startAhead() {
      head = new Set(ports.keys());
      flushSoon();
    },
    start() {
      started = true;
      flushSoon();
    },
    revision: () => revision,
    describe: (key) => link.describe(key),
    packetCounts: () => link.packetCounts(),
    pending: () => sent === undefined ? ports.size : differing.size,
    hasServicePorts: () => ports.size > 0,
    stop(options) {
      cancelTimer?.();
      idle.stop();
      stopped ??= link.stop(options);
      return stopped;
    },
  };
}
