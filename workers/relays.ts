/** Adds relays to the families' workers, each in its own worker with network permission only. */
import { describeMode } from "../backends/mod.ts";
import type {
  FamilyHealth,
  FamilyLink,
  FamilyListener,
  FamilyOptions,
  RelaySettings,
  StartFamily,
} from "../core/channel/mod.ts";
import {
  type FamilyDelta,
  type FamilySettings,
  readTraffic,
  type RelayPlaces,
  type RelayPorts,
  type ServicePortKey,
  servicePortKey,
  type SyncProblem,
  type TrafficReading,
  withRelayPlaces,
} from "../core/model/mod.ts";
import type { Problem } from "../core/problems/mod.ts";
import { type Family, isLoopback, sameData } from "../platform/mod.ts";
import type { RelayPlacement } from "../relay/mod.ts";
import {
  type FromRelay,
  type RelayApplied,
  type RelayStart,
  type RelayWorker,
  startRelayWorker,
  type ToRelay,
} from "./relay_worker.ts";
import type { Watchable, WorkerListener } from "./watched_worker.ts";
import { spawnWebWorker, workerEntry } from "./web_worker.ts";

const LOCALHOST: Readonly<Record<Family, string>> = { IPv4: "127.0.0.1", IPv6: "::1" };

/** A relay that waits for the next start of its family. */
interface Kept {
  readonly relay: RelayWorker;
  readonly start: RelayStart;
}

/**
 * Returns a function that starts a family's worker, with a relay if its options have settings for one. A family that is
 * started again with the same settings keeps its relay and the open connections.
 */
export function withRelays(startFamily: StartFamily): StartFamily {
  const kept = new Map<Family, Kept>();
  return (options, listener) => {
    const { family, relay: settings } = options;
    if (settings === undefined) {
      const before = kept.get(family);
      kept.delete(family);
      return before ? startAfter(before.relay, startFamily, options, listener) : startFamily(options, listener);
    }
    const startOf = (placement: RelayPlacement) => relayStart(options, settings, placement);
    return linkThroughRelay({
      startFamily,
      family: options,
      listener,
      placement: (familySettings) => placementOf(family, familySettings, ownAddresses()),
      takeRelay(placement) {
        const start = startOf(placement), before = kept.get(family);
        kept.delete(family);
        if (before && sameData(before.start, start)) return before.relay;
        before?.relay.stop();
        return startRelayWorker({ start, spawn: (events) => spawnRelay(family, events), ...options });
      },
      keepRelay: (relay, placement) => kept.set(family, { relay, start: startOf(placement) }),
    });
  };
}

/** Starts a family that no longer needs a relay: the previous relay ends when no rule points to it. */
function startAfter(
  relay: RelayWorker,
  startFamily: StartFamily,
  options: FamilyOptions,
  listener: FamilyListener,
): FamilyLink {
  const link = startFamily(options, {
    ...listener,
    onReport(report) {
      if (report.ok && report.full) relay.stop();
      listener.onReport(report);
    },
  });
  return {
    ...link,
    async stop(stopOptions) {
      await Promise.all([link.stop(stopOptions), relay.stop()]);
    },
  };
}

function relayStart(
  { family, logLevel, logFormat }: FamilyOptions,
  settings: RelaySettings,
  placement: RelayPlacement,
): RelayStart {
  return { type: "start", family, placement, settings, logLevel, logFormat };
}

/**
 * The place of the relay. Datagrams need an address of this node, since their answers must come from the address that the
 * rules sent them to.
 */
export function placementOf(
  family: Family,
  { mode, nodeIP, localhostNodePorts }: FamilySettings,
  ownAddresses: readonly string[],
): RelayPlacement | undefined {
  switch (describeMode(mode).relay) {
    case "none":
      return undefined;
    case "localhost-node-ports":
      return localhostNodePorts ? { by: "localhost-node-ports", addresses: [LOCALHOST[family]] } : undefined;
    case "services": {
      const isOwn = !isLoopback(nodeIP) && ownAddresses.includes(nodeIP);
      return { by: "redirect", udpAddress: isOwn ? nodeIP : ANY_ADDRESS[family] };
    }
  }
}

function ownAddresses(): readonly string[] {
  return Deno.networkInterfaces().map(({ address }) => address);
}

/** Starts the Web Worker of a family's relay, which may use the network and do nothing else. */
export function spawnRelay(family: Family, listener: WorkerListener<FromRelay>): Watchable<ToRelay> {
  const name = `sluice-relay-${family}`;
  return spawnWebWorker({ entry: workerEntry("relay"), name, tools: [], network: true }, listener);
}

/** The address that stands for all addresses of the node, by family. */
const ANY_ADDRESS: Readonly<Record<Family, string>> = { IPv4: "0.0.0.0", IPv6: "::" };

interface RelayLinkOptions {
  /** Starts the family's worker. */
  readonly startFamily: StartFamily;
  readonly family: FamilyOptions;
  readonly listener: FamilyListener;
  /** The place of the relay with these settings; undefined if it is not needed. */
  readonly placement: (settings: FamilySettings) => RelayPlacement | undefined;
  /** Starts a relay, or takes the one that the last link of the family kept. */
  readonly takeRelay: (placement: RelayPlacement) => RelayWorker;
  /** Keeps a relay, with its connections, for the next link of the family. */
  readonly keepRelay: (relay: RelayWorker, placement: RelayPlacement) => void;
}

const SCOPE = "relay";

interface Placed {
  readonly relay: RelayWorker;
  readonly placement: RelayPlacement;
  /** The ports of the service ports that it serves. */
  readonly ports: Map<ServicePortKey, RelayPorts>;
}

interface LinkState {
  readonly options: RelayLinkOptions;
  readonly worker: () => FamilyLink;
  placed: Placed | undefined;
  /** The delta whose ports are awaited; an answer to any other is out of date. */
  awaited: FamilyDelta | undefined;
  isRelayLost: boolean;
  relayRestarts: number;
  workerRestarts: number;
  workerHealth: FamilyHealth | undefined;
}

/**
 * Starts a family's worker behind a relay. While the relay restarts, the kernel keeps its rules; the whole state with the new
 * ports follows as soon as the new relay takes it.
 */
export function linkThroughRelay(options: RelayLinkOptions): FamilyLink {
  const { listener } = options;
  const state: LinkState = {
    options,
    worker: () => worker,
    placed: undefined,
    awaited: undefined,
    isRelayLost: false,
    relayRestarts: 0,
    workerRestarts: 0,
    workerHealth: undefined,
  };
  const worker = options.startFamily(options.family, {
    onReset() {
      state.awaited = undefined;
      listener.onReset();
    },
    onReport: listener.onReport,
    onProblems: listener.onProblems,
    onHealth(health) {
      state.workerHealth = health;
      if (health.state === "restarting") state.workerRestarts = health.restarts;
      if (!state.isRelayLost) listener.onHealth(withRestarts(health, state));
    },
  });
  return {
    ...worker,
    send: (delta) => send(state, delta),
    relayPlaces: () => placesOf(state),
    async call(call, request) {
      if (call.name !== readTraffic.name) return await worker.call(call, request);
      const both = [worker.call(readTraffic, undefined), state.placed?.relay.traffic()];
      const [counted, carried] = await Promise.all(both);
      const reading = counted && carried ? joined(counted, carried) : counted ?? carried;
      return call.checked(reading);
    },
    async relayFigures() {
      const figures = await state.placed?.relay.figures();
      return figures && { ...figures };
    },
    rest() {
      const rests = worker.rest();
      if (rests) releaseRelay(state)?.relay.stop();
      return rests;
    },
    async stop(stopOptions) {
      const placed = releaseRelay(state);
      if (placed && stopOptions?.keepWorker) options.keepRelay(placed.relay, placed.placement);
      await Promise.all([worker.stop(stopOptions), stopOptions?.keepWorker ? undefined : placed?.relay.stop()]);
    },
  };
}

function send(state: LinkState, delta: FamilyDelta): void {
  const hasMoved = delta.settings !== undefined && place(state, delta.settings);
  if (hasMoved && delta.base !== undefined) {
    // The new relay needs the whole state.
    queueMicrotask(state.options.listener.onReset);
    return;
  }
  const { placed } = state;
  if (placed?.placement.by === "redirect") state.awaited = delta;
  else state.worker().send(delta);
  placed?.relay.apply(delta);
}

/** Starts or ends the relay as the settings require. Returns whether another one has taken its place. */
function place(state: LinkState, settings: FamilySettings): boolean {
  const { options, placed } = state;
  const placement = options.placement(settings);
  if (sameData(placement, placed?.placement)) return false;
  releaseRelay(state)?.relay.stop();
  if (placement === undefined) return false;
  const relay = options.takeRelay(placement);
  relay.listen({
    onApplied: (applied) => noteApplied(state, applied),
    onLost: (reason) => noteLost(state, reason),
    onRestarted() {
      state.isRelayLost = false;
      if (state.workerHealth) options.listener.onHealth(withRestarts(state.workerHealth, state));
      options.listener.onReset();
    },
  });
  state.placed = { relay, placement, ports: new Map() };
  return true;
}

/** Detaches the relay from the link and returns it. */
function releaseRelay(state: LinkState): Placed | undefined {
  const { placed } = state;
  placed?.relay.listen(undefined);
  state.placed = state.awaited = undefined;
  state.isRelayLost = false;
  if (placed) state.options.listener.onProblems(SCOPE, []);
  return placed;
}

function noteApplied(state: LinkState, { revision, ports, problems, recovered }: RelayApplied): void {
  const { awaited, placed, options } = state;
  options.listener.onProblems(SCOPE, problems.map((problem) => problemOf(problem, options.family.family)));
  if (placed?.placement.by !== "redirect") return;
  if (awaited !== undefined && awaited.revision === revision) {
    state.awaited = undefined;
    notePorts(placed.ports, awaited, ports);
    state.worker().send(withRelayPlaces(awaited, placesOf(state)!));
  }
  if (recovered) options.listener.onReset();
}

function noteLost(state: LinkState, reason: string): void {
  const { placed, options } = state;
  state.relayRestarts++;
  state.awaited = undefined;
  if (placed?.placement.by !== "redirect") return;
  state.isRelayLost = true;
  const health = { state: "restarting", reason: `the relay died: ${reason}`, restarts: 0 } as const;
  options.listener.onHealth(withRestarts(health, state));
}

/** The health of a family with the restarts of its worker and its relay. */
function withRestarts(health: FamilyHealth, { workerRestarts, relayRestarts }: LinkState): FamilyHealth {
  return health.state === "restarting" ? { ...health, restarts: workerRestarts + relayRestarts } : health;
}

function problemOf({ code, servicePort, message }: SyncProblem, family: Family): Problem {
  return { code, subject: `${servicePort} (${family})`, detail: message };
}

function notePorts(known: Placed["ports"], { base, set, deleted }: FamilyDelta, ports: RelayApplied["ports"]): void {
  if (base === undefined) known.clear();
  for (const key of deleted) known.delete(key);
  for (const [i, { name, protocol }] of set.entries()) {
    const key = servicePortKey(name, protocol), its = ports[i];
    if (its === undefined) known.delete(key);
    else known.set(key, its);
  }
}

function joined(one: TrafficReading, other: TrafficReading): TrafficReading {
  return {
    durationMs: one.durationMs + other.durationMs,
    ports: [...one.ports, ...other.ports],
    endpoints: [...one.endpoints, ...other.endpoints],
    counts: Float64Array.from([...one.counts, ...other.counts]),
    failures: [...one.failures, ...other.failures],
  };
}

/** Where the relay listens, if the rules need to know. */
function placesOf({ placed }: LinkState): RelayPlaces | undefined {
  if (placed?.placement.by !== "redirect") return undefined;
  const { udpAddress } = placed.placement;
  return { address: Object.values(ANY_ADDRESS).includes(udpAddress) ? undefined : udpAddress, ports: placed.ports };
}
