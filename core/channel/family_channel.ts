/** Sends the planned state of one IP family to its worker, in deltas by revision. */
import type { Clock, ClockAndLogger, Logger } from "../../platform/mod.ts";
import type { Family, FamilyDelta, FamilySettings, ServicePort, ServicePortKey, SyncReport } from "../model/mod.ts";
import type { FamilyHealth, FamilyLink, FamilyListener, StopOptions } from "./family_link.ts";
import { createOutgoingState, type OutgoingState, type SentState } from "./outgoing_state.ts";

/** The time that a family must have been without service ports, and in sync, before its worker is stopped; in milliseconds. */
export interface RestDelays {
  /** The delay if it has had none since this process started. */
  readonly firstMs: number;
  /** The delay if it had some before: more may follow soon. */
  readonly laterMs: number;
}

/** The delays of a running proxy. */
export const REST_DELAYS: RestDelays = { firstMs: 5_000, laterMs: 300_000 };

interface FamilyChannelOptions extends ClockAndLogger {
  readonly family: Family;
  /** Starts the worker; called once, immediately. */
  readonly connect: (listener: FamilyListener) => FamilyLink;
  /** The minimum time between two deltas on average (kube-proxy's minSyncPeriod). */
  readonly minSyncPeriodMs: number;
  /** The time that the family must have been without service ports before its worker is stopped. */
  readonly restDelays: RestDelays;
  /** Whether the worker may be stopped now, as long as the family has no service ports. */
  readonly mayRest: () => boolean;
  /**
   * Called when all changes so far were sent as part of `revision`. They are in effect with the first successful report of this
   * or a later revision: revisions only grow, even across restarts of the worker.
   */
  readonly onSend?: (revision: number) => void;
  readonly onReport?: (report: SyncReport) => void;
  readonly onHealth?: (health: FamilyHealth) => void;
  readonly onProblems?: FamilyListener["onProblems"];
}

/** Sends one family's state to its worker. All changes of one turn of the event loop are sent together. */
export interface FamilyChannel {
  /** Adds or updates service ports. */
  set(ports: ReadonlyMap<ServicePortKey, ServicePort>): void;
  /** Deletes service ports. */
  delete(keys: Iterable<ServicePortKey>): void;
  /** Sets the settings of the family; nothing is sent before the first call. */
  configure(settings: FamilySettings): void;
  /** Sends the service ports set so far as a first batch, ahead of the rest of the state that `start` completes. */
  startAhead(): void;
  /** Starts sending: the sources are synced, so the state is complete. */
  start(): void;
  /** The revision last sent; 0 before the first. */
  revision(): number;
  /** The worker, for what needs no delta. */
  readonly link: Pick<FamilyLink, "call" | "compare" | "relayPlaces" | "relayCounts">;
  /** The number of service ports with unsent changes. */
  pending(): number;
  /** Whether there are any service ports. */
  hasServicePorts(): boolean;
  /** See `FamilyLink.stop`. */
  stop(options?: StopOptions): Promise<void>;
}

interface ChannelState {
  readonly options: FamilyChannelOptions;
  readonly logger: Logger;
  readonly limit: ReturnType<typeof createFrequencyLimit>;
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

/** A channel with its own worker. At most one delta is in flight; pending changes are merged, undone ones dropped. */
export function createFamilyChannel(options: FamilyChannelOptions): FamilyChannel {
  const { clock } = options;
  const logger = options.logger.with({ family: options.family });
  const limit = createFrequencyLimit(options.minSyncPeriodMs, clock), outgoing = createOutgoingState();
  const channel: ChannelState = { options, logger, limit, outgoing, workerListens: false };
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

  const idle = createIdleTimer(clock, options.restDelays, () => rest(channel, link));

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
  });

  const change = (update: () => void) => {
    update();
    hadServicePorts ||= outgoing.size() > 0;
    flushSoon();
  };

  return {
    set: (ports) => change(() => ports.forEach((port, key) => outgoing.put(key, port))),
    delete(keys) {
      change(() => {
        for (const key of keys) outgoing.put(key, undefined);
      });
    },
    configure: (settings) => change(() => outgoing.configure(settings)),
    startAhead: () => change(outgoing.markHead),
    start: () => change(outgoing.start),
    revision: outgoing.revision,
    link,
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
  const { options, outgoing, limit } = channel;
  if (!channel.workerListens || channel.stopped || channel.inFlight !== undefined || channel.cancelTimer) return;
  const delta = outgoing.next();
  if (delta === undefined) return;
  const waitMs = limit.waitMs();
  if (waitMs > 0) return flushLater(channel, link, waitMs);
  outgoing.markSent(delta);
  channel.inFlight = delta;
  const { revision, base, part, set, deleted } = delta;
  const sizes = { set: set.length, deleted: deleted.length };
  channel.logger.debug("sending delta to worker", { revision, snapshot: base === undefined, part, ...sizes });
  // Of changes that are split into portions, the last one counts, so that the others do not delay it.
  if (part !== "head" && outgoing.isSent()) {
    limit.sent();
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
  const { options, outgoing } = channel;
  const sent = outgoing.sent();
  // The report of a first batch does not mean that it is in effect: the worker may only have stored it.
  const isOfHead = report.revision === sent?.revision && sent.isHead;
  if (!isOfHead) options.onReport?.(report);
  channel.finished = report.unfinished || isOfHead ? undefined : report.revision;
  if (report.revision === channel.inFlight?.revision) channel.inFlight = undefined;
}

/**
 * Whether a family without service ports may be without a worker. One worker must stay, since only a worker can start
 * another: IPv4's if neither family has service ports. A worker also stays where the kernel may route loopback addresses,
 * to watch over the rule that drops martian packets.
 */
export function mayRest(
  family: Family,
  routesLoopback: boolean,
  otherHasServicePorts: boolean,
): boolean {
  if (family === "IPv6") return true;
  return otherHasServicePorts && !routesLoopback;
}

/** Calls `onRest` when a family has been idle for the delay, and again after later delays while it returns false. */
function createIdleTimer(clock: Clock, delays: RestDelays, onRest: () => boolean) {
  let cancel: (() => void) | undefined;
  const stop = () => {
    cancel?.();
    cancel = undefined;
  };
  const wait = (delayMs: number) => {
    cancel = clock.schedule(delayMs, () => {
      cancel = undefined;
      if (!onRest()) wait(delays.laterMs);
    });
  };
  return {
    /** Notes whether the family is idle now, and whether it ever had service ports. */
    note(isIdle: boolean, hadServicePorts: boolean) {
      if (!isIdle) stop();
      else if (cancel === undefined) wait(hadServicePorts ? delays.laterMs : delays.firstMs);
    },
    stop,
  };
}

/** Allows one delta every period on average, and two in a row after a pause: kube-proxy's limit with minSyncPeriod. */
function createFrequencyLimit(periodMs: number, clock: Clock) {
  // When two in a row are possible again; each delta moves this forward by a period.
  let restedAtMs = -Infinity;
  return {
    /** The wait before the next delta, in milliseconds; 0 if it may be sent now. */
    waitMs(): number {
      const waitMs = restedAtMs - periodMs - clock.monotonic();
      // Timers count whole milliseconds, so less than half of one is no wait.
      return waitMs < 0.5 ? 0 : waitMs;
    },
    /** A delta was sent that counts against the frequency. */
    sent(): void {
      restedAtMs = Math.max(restedAtMs, clock.monotonic()) + periodMs;
    },
  };
}
