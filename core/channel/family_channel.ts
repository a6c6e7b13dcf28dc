/** Sends the planned state of one IP family to its worker, in deltas by revision. */
import type { Clock, Logger } from "../../platform/mod.ts";
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
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "./family_link.ts";
import { createIdleTimer, type RestDelays } from "./idle_worker.ts";
import { createOutgoingState, type SentState } from "./outgoing_state.ts";
import { createBoundedFrequency, createWorkBudget } from "./pacing.ts";

/** Options of `createFamilyChannel`. */
export interface FamilyChannelOptions {
  readonly family: Family;
  /** Starts the worker; called once, immediately. */
  readonly connect: (listener: FamilyListener) => FamilyLink;
  /**
   * The minimum time between two deltas on average, as kube-proxy's minSyncPeriod; with 0, syncs are limited to a fifth
   * of the time.
   */
  readonly minSyncPeriodMs: number;
  /** How long the family must have been without service ports before its worker is stopped. */
  readonly restDelays: RestDelays;
  /** Whether the worker may be stopped now, as long as the family has no service ports. */
  readonly mayRest: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Everything changed until now was sent as part of `revision`. It is in effect with the first successful report of this
   * revision or a later one: revisions only grow, even across restarts of the worker.
   */
  readonly onSend?: (revision: number) => void;
  readonly onReport?: (report: SyncReport) => void;
  readonly onHealth?: (health: FamilyHealth) => void;
}

/** Sends one family's state to its worker. All changes of one turn of the event loop are sent together. */
export interface FamilyChannel {
  /** Adds or updates service ports. */
  set(ports: Iterable<ServicePort>): void;
  /** Deletes service ports. */
  delete(keys: Iterable<ServicePortKey>): void;
  /** Sets the settings of the family; nothing is sent before the first call. */
  configure(settings: FamilySettings): void;
  /**
   * Sends the service ports set until now ahead of all others, as the head of the state that `start` completes.
   */
  startAhead(): void;
  /** Starts sending: the sources are synced, so the state is complete. */
  start(): void;
  /** The revision last sent; 0 before the first. */
  revision(): number;
  /** See `FamilyLink.describe`. */
  describe(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** See `FamilyLink.packetCounts`. */
  packetCounts(): Promise<PacketCounts | undefined>;
  /** The number of service ports that differ from what was last sent. */
  pending(): number;
  /** Whether there are any service ports. */
  hasServicePorts(): boolean;
  /** See `FamilyLink.stop`. */
  stop(options?: StopOptions): Promise<void>;
}

/** The budget of syncs without a minSyncPeriod; no change waits longer than with kube-proxy's minSyncPeriod of 1 s. */
const SYNC_BUDGET = { share: 0.2, windowMs: 10_000, longestWaitMs: 1000 };
/** The work of a small sync that the worker does not measure: tracking, planning, sending and reporting a change. */
const WORK_BESIDE_SYNC_MS = 5;

/**
 * A channel with its own worker. At most one delta is in flight; changes made meanwhile are merged and undone ones dropped, so
 * that what waits is bounded by the number of service ports.
 */
export function createFamilyChannel(options: FamilyChannelOptions): FamilyChannel {
  const { clock } = options;
  const logger = options.logger.with({ family: options.family });
  const pace = createPace(options.minSyncPeriodMs, clock);
  const state = createOutgoingState();

  let inFlight: FamilyDelta | undefined;
  let workerListens = false;
  let stopped: Promise<void> | undefined;
  // The revision that is in effect with nothing left to do.
  let finished: number | undefined;
  let hadServicePorts = false;
  // The state in effect while the worker is stopped.
  let resting: SentState | undefined;
  let flushIsDue = false;
  let cancelTimer: (() => void) | undefined;

  // Flushes at the end of the turn, so that related changes travel together: the deletion of one service and the creation
  // of another with the same address, for example.
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

  const isIdle = () => !stopped && state.size() === 0 && state.isSent() && state.revision() === finished;

  const idle = createIdleTimer({
    clock,
    delays: options.restDelays,
    onRest() {
      const sent = state.sent();
      if (sent === undefined || !options.mayRest() || !link.rest()) return false;
      resting = sent;
      state.forgetSent();
      workerListens = false;
      return true;
    },
  });

  const wakeIfNeeded = () => {
    if (stopped || resting === undefined || (state.size() === 0 && state.hasSettings(resting.settings))) return;
    resting = undefined;
    link.wake();
  };

  const flush = () => {
    if (!workerListens || stopped || inFlight !== undefined || cancelTimer) return;
    const delta = state.next();
    if (delta === undefined) return;
    const waitMs = pace.waitMs();
    if (waitMs > 0) {
      cancelTimer = clock.schedule(Math.ceil(waitMs), () => {
        cancelTimer = undefined;
        flush();
      });
      return;
    }
    state.markSent(delta);
    inFlight = delta;
    const { revision, base, part, set, deleted } = delta;
    logger.debug("sending delta to worker", {
      revision,
      snapshot: base === undefined,
      part,
      set: set.length,
      deleted: deleted.length,
    });
    if (part !== "head") {
      pace.sent();
      options.onSend?.(revision);
    }
    link.send(delta);
  };

  const onReport = (report: SyncReport) => {
    const sent = state.sent();
    // The report of a head does not mean that the state is in effect: the worker may only have stored it.
    const isOfHead = report.revision === sent?.revision && sent.isHead;
    if (!isOfHead) options.onReport?.(report);
    finished = report.unfinished || isOfHead ? undefined : report.revision;
    flushSoon();
    if (report.revision !== inFlight?.revision) return;
    // The first sync takes long and is no measure of the cost of a change.
    if (inFlight.base !== undefined && inFlight.part === undefined) pace.synced(report.durationMs);
    inFlight = undefined;
  };

  const link = options.connect({
    onReset() {
      workerListens = true;
      inFlight = undefined;
      state.forgetSent();
      flushSoon();
    },
    onReport,
    onHealth: (health) => options.onHealth?.(health),
  });

  const change = (update: () => void) => {
    update();
    hadServicePorts ||= state.size() > 0;
    flushSoon();
  };

  return {
    set(ports) {
      change(() => {
        for (const port of ports) state.put(servicePortKey(port.name, port.protocol), port);
      });
    },
    delete(keys) {
      change(() => {
        for (const key of keys) state.put(key, undefined);
      });
    },
    configure: (settings) => change(() => state.configure(settings)),
    startAhead: () => change(state.markHead),
    start: () => change(state.start),
    revision: state.revision,
    describe: (key) => link.describe(key),
    packetCounts: () => link.packetCounts(),
    pending: state.pending,
    hasServicePorts: () => state.size() > 0,
    stop(options) {
      cancelTimer?.();
      idle.stop();
      stopped ??= link.stop(options);
      return stopped;
    },
  };
}

/** Decides when the next delta may be sent. */
interface Pace {
  waitMs(): number;
  /** A delta was sent that counts against the frequency. */
  sent(): void;
  /** A sync of changes has ended. */
  synced(durationMs: number): void;
}

/** Limits the frequency with a minSyncPeriod, and the share of time without one. */
function createPace(minSyncPeriodMs: number, clock: Clock): Pace {
  if (minSyncPeriodMs > 0) {
    const frequency = createBoundedFrequency({ periodMs: minSyncPeriodMs, burst: 2, clock });
    return { waitMs: frequency.waitMs, sent: frequency.count, synced() {} };
  }
  const budget = createWorkBudget({ ...SYNC_BUDGET, clock });
  return {
    waitMs: budget.waitMs,
    sent() {},
    synced: (durationMs) => budget.spend(durationMs + WORK_BESIDE_SYNC_MS),
  };
}
