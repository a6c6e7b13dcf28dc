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
import {
  type Family,
  isLoopback,
  LOOPBACK_ADDRESS,
  sameData,
  UNSPECIFIED_ADDRESS,
  type WorkerHandle,
  type WorkerListener,
} from "../platform/mod.ts";
import type { RelayPlacement } from "../relay/mod.ts";
import {
  type FromRelay,
  type RelayApplied,
  type RelayStart,
  type RelayWorker,
  startRelayWorker,
  type ToRelay,
} from "./relay_worker.ts";
import { spawnWebWorker, workerEntry } from "./web_worker.ts";

/** A family's relay. */
interface Placed {
  readonly relay: RelayWorker;
  readonly start: RelayStart;
  /** The ports of the service ports that it serves. */
  readonly ports: Map<ServicePortKey, RelayPorts>;
}

/** The parts that the links of both families share. */
interface Relays {
  readonly startFamily: StartFamily;
  readonly startRelay: (start: RelayStart, options: FamilyOptions) => RelayWorker;
  readonly ownAddresses: () => readonly string[];
  /** The relays that wait for the next start of their family. */
  readonly kept: Map<Family, Placed>;
}

/**
 * Returns a function that starts a family's worker, with a relay if its options have settings for one. A family that is
 * started again with the same settings keeps its relay and the open connections.
 */
export function withRelays(
  startFamily: StartFamily,
  startRelay: Relays["startRelay"] = (start, { clock, logger }) =>
    startRelayWorker({ start, spawn: (events) => spawnRelay(start.family, events), clock, logger }),
  ownAddresses = () => Deno.networkInterfaces().map(({ address }) => address),
): StartFamily {
  const relays: Relays = { startFamily, startRelay, ownAddresses, kept: new Map() };
  return (options, listener) => {
    if (options.relay !== undefined) return linkThroughRelay(relays, options, options.relay, listener);
    const before = takeKept(relays, options.family);
    return before ? startAfter(before.relay, startFamily, options, listener) : startFamily(options, listener);
  };
}

function takeKept({ kept }: Relays, family: Family): Placed | undefined {
  const before = kept.get(family);
  kept.delete(family);
  return before;
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

/** The place of the relay. Answers of datagrams must come from the address that the rules sent them to. */
export function placementOf(
  family: Family,
  { mode, nodeIP, localhostNodePorts }: FamilySettings,
  ownAddresses: readonly string[],
): RelayPlacement | undefined {
  switch (describeMode(mode).relay) {
    case "none":
      return undefined;
    case "localhost-node-ports":
      return localhostNodePorts ? { by: "localhost-node-ports", addresses: [LOOPBACK_ADDRESS[family]] } : undefined;
    case "services": {
      const isOwn = !isLoopback(nodeIP) && ownAddresses.includes(nodeIP);
      return { by: "redirect", udpAddress: isOwn ? nodeIP : UNSPECIFIED_ADDRESS[family] };
    }
  }
}

/** Starts the Web Worker of a family's relay, which may use the network and do nothing else. */
export function spawnRelay(family: Family, listener: WorkerListener<FromRelay>): WorkerHandle<ToRelay> {
  const name = `sluice-relay-${family}`;
  return spawnWebWorker({ entry: workerEntry("relay"), name, tools: [], network: true }, listener);
}

const SCOPE = "relay";

interface LinkState {
  readonly relays: Relays;
  readonly options: FamilyOptions;
  readonly relaySettings: RelaySettings;
  readonly listener: FamilyListener;
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
function linkThroughRelay(
  relays: Relays,
  options: FamilyOptions,
  relaySettings: RelaySettings,
  listener: FamilyListener,
): FamilyLink {
  const state: LinkState = {
    ...{ relays, options, relaySettings, listener },
    worker: () => worker,
    placed: undefined,
    awaited: undefined,
    workerHealth: undefined,
    isRelayLost: false,
    relayRestarts: 0,
    workerRestarts: 0,
  };
  const worker = relays.startFamily(options, {
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
    relayCounts: async () => await state.placed?.relay.counts(),
    rest() {
      const rests = worker.rest();
      if (rests) releaseRelay(state)?.relay.stop();
      return rests;
    },
    async stop(stopOptions) {
      const placed = releaseRelay(state);
      if (placed && stopOptions?.keepWorker) relays.kept.set(options.family, placed);
      await Promise.all([worker.stop(stopOptions), stopOptions?.keepWorker ? undefined : placed?.relay.stop()]);
    },
  };
}

function send(state: LinkState, delta: FamilyDelta): void {
  const hasMoved = delta.settings !== undefined && place(state, delta.settings);
  if (hasMoved && delta.base !== undefined) {
    // The new relay needs the whole state.
    queueMicrotask(state.listener.onReset);
    return;
  }
  const { placed } = state;
  if (placed?.start.placement.by === "redirect") state.awaited = delta;
  else state.worker().send(delta);
  placed?.relay.apply(delta);
}

/** Starts or ends the relay as the settings require. Returns whether another one has taken its place. */
function place(state: LinkState, settings: FamilySettings): boolean {
  const { relays, options: { family, logLevel, logFormat }, placed, listener } = state;
  const placement = placementOf(family, settings, relays.ownAddresses());
  if (sameData(placement, placed?.start.placement)) return false;
  releaseRelay(state)?.relay.stop();
  if (placement === undefined) return false;
  const start: RelayStart = { type: "start", family, placement, settings: state.relaySettings, logLevel, logFormat };
  const before = takeKept(relays, family), isSame = sameData(before?.start, start);
  if (!isSame) before?.relay.stop();
  const relay = before && isSame ? before.relay : relays.startRelay(start, state.options);
  relay.listen({
    onApplied: (applied) => noteApplied(state, applied),
    onLost: (reason) => noteLost(state, reason),
    onRestarted() {
      state.isRelayLost = false;
      if (state.workerHealth) listener.onHealth(withRestarts(state.workerHealth, state));
      listener.onReset();
    },
  });
  state.placed = { relay, start, ports: new Map() };
  return true;
}

/** Detaches the relay from the link and returns it. */
function releaseRelay(state: LinkState): Placed | undefined {
  const { placed } = state;
  placed?.relay.listen(undefined);
  state.placed = state.awaited = undefined;
  state.isRelayLost = false;
  if (placed) state.listener.onProblems(SCOPE, []);
  return placed;
}

function noteApplied(state: LinkState, { revision, ports, problems, recovered }: RelayApplied): void {
  const { awaited, placed, options, listener } = state;
  const problemOf = ({ code, servicePort, message }: SyncProblem): Problem => (
    { code, subject: `${servicePort} (${options.family})`, detail: message }
  );
  listener.onProblems(SCOPE, problems.map(problemOf));
  if (placed?.start.placement.by !== "redirect") return;
  if (awaited !== undefined && awaited.revision === revision) {
    state.awaited = undefined;
    notePorts(placed.ports, awaited, ports);
    state.worker().send(withRelayPlaces(awaited, placesOf(state)!));
  }
  if (recovered) listener.onReset();
}

function noteLost(state: LinkState, reason: string): void {
  const { placed, listener } = state;
  state.relayRestarts++;
  state.awaited = undefined;
  if (placed?.start.placement.by !== "redirect") return;
  state.isRelayLost = true;
  const health = { state: "restarting", reason: `the relay died: ${reason}`, restarts: 0 } as const;
  listener.onHealth(withRestarts(health, state));
}

/** The health of a family with the restarts of its worker and its relay. */
function withRestarts(health: FamilyHealth, { workerRestarts, relayRestarts }: LinkState): FamilyHealth {
  return health.state === "restarting" ? { ...health, restarts: workerRestarts + relayRestarts } : health;
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
  if (placed?.start.placement.by !== "redirect") return undefined;
  const { udpAddress } = placed.start.placement;
  return {
    address: Object.values(UNSPECIFIED_ADDRESS).includes(udpAddress) ? undefined : udpAddress,
    ports: placed.ports,
  };
}
