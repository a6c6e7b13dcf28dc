/** Sends the planned state of one IP family to its worker, in deltas by revision. */
import type { Clock, Logger } from "../../platform/mod.ts";
import {
  type AttemptCounts,
  type Family,
  type FamilyDelta,
  type FamilySettings,
  type PacketCounts,
  type PathExamination,
  type PathFinding,
  type RelayPlaces,
  type RuleDescription,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncReport,
} from "../model/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "./family_link.ts";
import { createIdleTimer, type RestDelays } from "./idle_worker.ts";
import { createOutgoingState, type OutgoingState, type SentState } from "./outgoing_state.ts";
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
  /** The time that the family must have been without service ports before its worker is stopped. */
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
  readonly onProblems?: FamilyListener["onProblems"];
  readonly onTraffic?: FamilyListener["onTraffic"];
}

/** Sends one family's state to its worker. All changes of one turn of the event loop are sent together. */
export interface FamilyChannel {
  /** Adds or updates service ports. */
  set(ports: Iterable<ServicePort>): void;
  /** Deletes service ports. */
  delete(keys: Iterable<ServicePortKey>): void;
  /** Reports endpoints that have left every EndpointSlice; they are sent with the changes made so far, or on their own. */
  gone(endpoints: readonly string[]): void;
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
  /** See `FamilyLink.readTraffic`. */
  readTraffic(): void;
  /** See `FamilyLink.attemptCounts`. */
  attemptCounts(): Promise<AttemptCounts | undefined>;
  /** See `FamilyLink.compare`. */
  compare(): void;
  /** See `FamilyLink.examine`. */
  examine(what: PathExamination): Promise<readonly PathFinding[] | undefined>;
  /** See `FamilyLink.relayPlaces`. */
  relayPlaces(): RelayPlaces | undefined;
  /** See `FamilyLink.relayFigures`. */
  relayFigures(): Promise<Readonly<Record<string, number>> | undefined>;
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

/** The state of a channel. */
interface ChannelState {
  readonly options: FamilyChannelOptions;
  readonly logger: Logger;
  readonly pace: Pace;
  readonly outgoing: OutgoingState;
  inFlight?: FamilyDelta | undefined;
  workerListens: boolean;
  stopped?: Promise<void>;
  /** The revision that is in effect with nothing left to do. */
  finished?: number | undefined;
  /** The state in effect while the worker is stopped. */
  resting?: SentState | undefined;
  cancelTimer?: (() => void) | undefined;
}

/**
 * A channel with its own worker. At most one delta is in flight; changes made meanwhile are merged and undone ones dropped, so
 * that what waits is bounded by the number of service ports.
 */
export function createFamilyChannel(options: FamilyChannelOptions): FamilyChannel {
  const { clock, restDelays: delays } = options;
  const logger = options.logger.with({ family: options.family });
  const pace = createPace(options.minSyncPeriodMs, clock);
  const outgoing = createOutgoingState();
  const channel: ChannelState = { options, logger, pace, outgoing, workerListens: false };
  let hadServicePorts = false;
  let flushIsDue = false;

  // Flushes at the end of the turn, so that related changes travel together: the deletion of one service and the creation
  // of another with the same address, for example.
  const flushSoon = () => {
    if (flushIsDue) return;
    flushIsDue = true;
    queueMicrotask(() => {
      flushIsDue = false;
      wakeIfNeeded(channel, link);
      flush(channel, link);
      idle.note(isIdle(channel), hadServicePorts);
    });
  };

  const idle = createIdleTimer({ clock, delays, onRest: () => rest(channel, link) });

  const link = options.connect({
    onReset() {
      channel.workerListens = true;
      channel.inFlight = undefined;
      outgoing.forgetSent();
      flushSoon();
    },
    onReport(report) {
      noteReport(channel, report);
      flushSoon();
    },
    onHealth: (health) => options.onHealth?.(health),
    onProblems: (scope, problems) => options.onProblems?.(scope, problems),
    onTraffic: (reading) => options.onTraffic?.(reading),
  });

  const change = (update: () => void) => {
    update();
    hadServicePorts ||= outgoing.size() > 0;
    flushSoon();
  };

  return {
    set(ports) {
      change(() => {
        for (const port of ports) outgoing.put(servicePortKey(port.name, port.protocol), port);
      });
    },
    delete(keys) {
      change(() => {
        for (const key of keys) outgoing.put(key, undefined);
      });
    },
    gone: (endpoints) => change(() => outgoing.addGone(endpoints)),
    configure: (settings) => change(() => outgoing.configure(settings)),
    startAhead: () => change(outgoing.markHead),
    start: () => change(outgoing.start),
    revision: outgoing.revision,
    describe: (key) => link.describe(key),
    packetCounts: () => link.packetCounts(),
    readTraffic: () => link.readTraffic?.(),
    attemptCounts: () => link.attemptCounts(),
    compare: () => link.compare(),
    examine: (what) => link.examine(what),
    relayPlaces: () => link.relayPlaces?.(),
    relayFigures: async () => await link.relayFigures?.(),
    pending: outgoing.pending,
    hasServicePorts: () => outgoing.size() > 0,
    stop(options) {
      channel.cancelTimer?.();
      idle.stop();
      return channel.stopped ??= link.stop(options);
    },
  };
}

function isIdle({ stopped, outgoing, finished }: ChannelState): boolean {
  return !stopped && outgoing.size() === 0 && outgoing.isSent() && outgoing.revision() === finished;
}

/** Stops the worker of an idle channel; returns false if it has to stay. */
function rest(channel: ChannelState, link: FamilyLink): boolean {
  const sent = channel.outgoing.sent();
  if (sent === undefined || !channel.options.mayRest() || !link.rest()) return false;
  channel.resting = sent;
  channel.outgoing.forgetSent();
  channel.workerListens = false;
  return true;
}

function wakeIfNeeded(channel: ChannelState, link: FamilyLink): void {
  const { stopped, resting, outgoing } = channel;
  if (stopped || resting === undefined || (outgoing.size() === 0 && outgoing.hasSettings(resting.settings))) return;
  channel.resting = undefined;
  link.wake();
}

function flush(channel: ChannelState, link: FamilyLink): void {
  const { options, outgoing, pace } = channel;
  if (!channel.workerListens || channel.stopped || channel.inFlight !== undefined || channel.cancelTimer) return;
  const delta = outgoing.next();
  if (delta === undefined) return;
  const waitMs = pace.waitMs();
  if (waitMs > 0) return flushLater(channel, link, waitMs);
  outgoing.markSent(delta);
  channel.inFlight = delta;
  const { revision, base, part, set, deleted } = delta;
  channel.logger.debug("sending delta to worker", {
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
}

function flushLater(channel: ChannelState, link: FamilyLink, waitMs: number): void {
  channel.cancelTimer = channel.options.clock.schedule(Math.ceil(waitMs), () => {
    channel.cancelTimer = undefined;
    flush(channel, link);
  });
}

function noteReport(channel: ChannelState, report: SyncReport): void {
  const { options, outgoing, pace } = channel;
  const sent = outgoing.sent();
  // The report of a head does not mean that the state is in effect: the worker may only have stored it.
  const isOfHead = report.revision === sent?.revision && sent.isHead;
  if (!isOfHead) options.onReport?.(report);
  channel.finished = report.unfinished || isOfHead ? undefined : report.revision;
  const { inFlight } = channel;
  if (report.revision !== inFlight?.revision) return;
  // The first sync takes long and is no measure of the cost of a change.
  if (inFlight.base !== undefined && inFlight.part === undefined) pace.synced(report.durationMs);
  channel.inFlight = undefined;
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
