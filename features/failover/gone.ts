/** Finds TCP endpoints that have died, and has the worker reset the connections of services to them. */
import {
  type Frontend,
  frontendsOf,
  type GoneEndpoint,
  isFrontendAt,
  namespaceOf,
  RESET_LIFETIME_MS,
  servicePortKey,
  type ServicePortName,
} from "../../core/model/mod.ts";
import type { EndpointSlice } from "../../core/objects/mod.ts";
import { type PlannedPort, servicePortName } from "../../core/planning/mod.ts";
import {
  type ServiceKey,
  serviceKey,
  serviceKeyOf,
  type TrackedChanges,
  type Tracking,
} from "../../core/tracking/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { Node, NodeFamily } from "../contract.ts";
import { resetGone } from "./calls.ts";

/** The time for which no slice may have an address: a controller may move it from one slice to another. */
const SETTLED_MS = 500;
/** The shortest time between two looks at all slices; what one look finds is one write. */
const LOOK_EVERY_MS = 1_000;
/** If a look is later than that, this process was busy, and events that have arrived meanwhile come first. */
const LATE_MS = 100;
/** For how long an address is remembered that another slice still has. */
const LONGEST_MS = 600_000;
/** The time within which a controller takes endpoints out of the slices that another selector does not choose. */
const RESELECTED_MS = 120_000;
/** The most endpoints of service ports that are remembered, and the most pairs of frontend and endpoint in the kernel. */
const MOST_LOST = 20_000, MOST_PAIRS = 20_000;
/** The longest time that a pair is in the kernel, including the time until it is there. */
const LONGEST_PAIR_MS = RESET_LIFETIME_MS + 60_000;

interface Suspect {
  /** When it last left any slice, and when it last did while it was terminating, by the monotonic clock. */
  leftMs: number;
  provenMs: number;
  readonly lost: Map<string, Lost>;
}

/** A service port that has lost an endpoint (`address:port`) which was terminating. */
interface Lost {
  readonly name: ServicePortName;
  readonly endpoint: string;
}

type WatchedNode = Pick<Node, "clock" | "logger" | "signal" | "ledgers">;
type WatchedFamily = Pick<NodeFamily, "family" | "portsOf" | "nodePortAddresses" | "call">;
type TrackedSlices = Pick<Tracking["endpoints"]["IPv4"], "values" | "slicesOf">;

interface Watch {
  readonly node: WatchedNode;
  readonly family: WatchedFamily;
  readonly tracked: TrackedSlices;
  readonly suspects: Map<string, Suspect>;
  /** The suspects to look for in the slices, since they have left one. */
  readonly due: Set<string>;
  /** The services whose selector has changed, and when; oldest first. */
  readonly reselectedMs: Map<ServiceKey, number>;
  readonly remembered: Shares;
  readonly pairs: Shares;
  /** The pairs that the kernel has got, oldest first. */
  readonly written: { readonly namespace: string; readonly count: number; readonly untilMs: number }[];
  lookedMs: number;
  /** Cancels the next look; undefined if none is scheduled. */
  cancel?: (() => void) | undefined;
}

/**
 * Watches the slices of a family. An endpoint is dead if it was terminating when it left a slice, and no slice of any service has
 * its address any more. Connections are reset that go to it through services which have lost it so. Nothing else proves
 * a death: other endpoints may live on when they leave, and so may all that a service loses because of another selector.
 * @param tracked the current slices of the family
 * @returns the listener to rounds of planning
 */
export function watchGone(
  node: WatchedNode,
  family: WatchedFamily,
  tracked: TrackedSlices,
): (changes: Pick<TrackedChanges, "endpoints" | "reselected">) => void {
  const watch: Watch = {
    ...{ node, family, tracked, suspects: new Map(), due: new Set(), reselectedMs: new Map(), written: [] },
    ...{ remembered: createShares(MOST_LOST), pairs: createShares(MOST_PAIRS), lookedMs: -Infinity },
  };
  node.signal.addEventListener("abort", () => watch.cancel?.(), { once: true });

  return ({ endpoints, reselected }) => {
    noteReselected(watch, reselected);
    const livingIn = remembering((service) => {
      const endpoints = tracked.slicesOf(service).flatMap((slice) => slice.endpoints);
      return new Set(endpoints.flatMap(({ address, terminating }) => terminating ? [] : [address]));
    });
    for (const step of endpoints[family.family].steps) noteStep(watch, step, livingIn);
    lookLater(watch);
  };
}

/** Remembers what a function returns for a service: a slice may lose very many endpoints, and a service have very many ports. */
function remembering<T>(find: (service: ServiceKey) => T): (service: ServiceKey) => T {
  const known = new Map<ServiceKey, T>();
  return (service) => {
    const found = known.get(service) ?? find(service);
    known.set(service, found);
    return found;
  };
}

function noteReselected(watch: Watch, reselected: ReadonlySet<ServiceKey>): void {
  const { suspects, reselectedMs } = watch, nowMs = watch.node.clock.monotonic();
  for (const [service, atMs] of reselectedMs) if (atMs + RESELECTED_MS <= nowMs) reselectedMs.delete(service);
  if (reselected.size === 0) return;
  for (const service of reselected) {
    reselectedMs.delete(service);
    reselectedMs.set(service, nowMs);
  }
  // Its slices may have changed before this was known.
  for (const address of suspects.keys()) forget(watch, address, reselected);
}

type Step = TrackedChanges["endpoints"]["IPv4"]["steps"][number];
type LivingIn = (service: ServiceKey) => ReadonlySet<string>;

function noteStep(watch: Watch, { before, after }: Step, livingIn: LivingIn): void {
  const { suspects, due } = watch, nowMs = watch.node.clock.monotonic();
  if (suspects.size === 0 && !before?.endpoints.some(({ terminating }) => terminating)) return;
  const current = new Set(after?.endpoints.map(({ address }) => address));
  for (const { address, terminating } of before?.endpoints ?? []) {
    if (current.has(address)) continue;
    if (terminating) lose(watch, before!, address, livingIn);
    const suspect = suspects.get(address);
    if (suspect === undefined) continue;
    suspect.leftMs = nowMs;
    due.add(address);
  }
  const service = new Set(after && [serviceKey(after.namespace, after.serviceName)]);
  for (const { address, terminating } of after?.endpoints ?? []) {
    // Another pod of the service has got the address.
    if (!terminating && suspects.has(address)) forget(watch, address, service);
  }
}

function lose(watch: Watch, slice: EndpointSlice, address: string, livingIn: LivingIn): void {
  const { suspects, remembered } = watch, { namespace, serviceName, ports } = slice;
  const service = serviceKey(namespace, serviceName);
  // Another pod of the service may have its address already.
  if (watch.reselectedMs.has(service) || livingIn(service).has(address)) return;
  const suspect = suspects.get(address) ?? { leftMs: 0, provenMs: 0, lost: new Map<string, Lost>() };
  suspect.provenMs = watch.node.clock.monotonic();
  for (const { name: port, protocol, port: number } of ports) {
    if (protocol !== "tcp") continue;
    const name = servicePortName({ namespace, name: serviceName }, { name: port });
    const endpoint = joinHostPort(address, number), id = `${name} ${endpoint}`;
    if (!suspect.lost.has(id) && remembered.take(namespace, 1)) suspect.lost.set(id, { name, endpoint });
  }
  if (suspect.lost.size > 0) suspects.set(address, suspect);
}

/** Forgets what is lost of an address, or what these services have lost. */
function forget(watch: Watch, address: string, services?: ReadonlySet<ServiceKey>): void {
  const { lost } = watch.suspects.get(address)!;
  for (const [id, { name }] of lost) {
    if (services === undefined || services.has(serviceKeyOf(name))) drop(watch, lost, id, name);
  }
  if (lost.size > 0) return;
  watch.suspects.delete(address);
  watch.due.delete(address);
}

function drop({ remembered }: Watch, lost: Map<string, Lost>, id: string, name: ServicePortName): void {
  lost.delete(id);
  remembered.release(namespaceOf(name), 1);
}

function lookLater(watch: Watch): void {
  const { suspects, due, lookedMs, node: { clock } } = watch;
  if (watch.cancel !== undefined || due.size === 0) return;
  const firstMs = due.values().reduce((first, one) => Math.min(first, suspects.get(one)!.leftMs), Infinity);
  const dueMs = Math.max(firstMs + SETTLED_MS, lookedMs + LOOK_EVERY_MS);
  const wait = (delayMs: number) => {
    watch.cancel = clock.schedule(delayMs, () => {
      if (clock.monotonic() > dueMs + LATE_MS && delayMs !== LATE_MS) return wait(LATE_MS);
      watch.cancel = undefined;
      // A timer may end a fraction of a millisecond early.
      watch.lookedMs = Math.max(dueMs, clock.monotonic());
      look(watch);
      lookLater(watch);
    });
  };
  wait(dueMs - clock.monotonic());
}

function look(watch: Watch): void {
  const { written, pairs, lookedMs, family, node } = watch;
  while (written[0] !== undefined && written[0].untilMs <= lookedMs) {
    const { namespace, count } = written.shift()!;
    pairs.release(namespace, count);
  }
  const { gone, isFull } = takeGone(watch, takeAbsent(watch));
  if (isFull) {
    const fields = { family: family.family, most: MOST_PAIRS };
    node.logger.warn("too many deleted endpoints: connections to some are not reset", fields);
  }
  if (gone.length > 0) void family.call(resetGone, gone);
}

/** The suspects whose time has come and whose address is in no slice. They are no longer due; old ones are forgotten. */
function takeAbsent(watch: Watch): ReadonlyMap<string, Suspect> {
  const { suspects, due, lookedMs, tracked } = watch;
  const absent = new Map<string, Suspect>();
  for (const [address, suspect] of suspects) {
    if (suspect.provenMs + LONGEST_MS < lookedMs) forget(watch, address);
    else if (suspect.leftMs + SETTLED_MS <= lookedMs && due.delete(address)) absent.set(address, suspect);
  }
  if (absent.size === 0) return absent;
  for (const { endpoints } of tracked.values()) for (const { address } of endpoints) absent.delete(address);
  return absent;
}

/** The endpoints to reset, which are no longer remembered, and whether there were too many. */
function takeGone(watch: Watch, absent: ReadonlyMap<string, Suspect>) {
  const { written, pairs, due, lookedMs, family } = watch, ledger = watch.node.ledgers[family.family];
  const gone: GoneEndpoint[] = [], frontendsOfPort = frontendFinder(family);
  const portsIn = remembering((service) => new Map(family.portsOf(service).map((port) => [port.key, port])));
  let isFull = false;
  for (const [address, { lost }] of absent) {
    for (const [id, { name, endpoint }] of lost) {
      const namespace = namespaceOf(name), port = portsIn(serviceKeyOf(name)).get(servicePortKey(name, "tcp"));
      // Until its current plan is in effect, new connections may go to the endpoint. It delays no other.
      if (port !== undefined && ledger.effect(name, port.plannedIn, true).state !== "in effect") continue;
      drop(watch, lost, id, name);
      const frontends = frontendsOfPort(port), count = frontends.length;
      if (count === 0) continue;
      if (!pairs.take(namespace, count)) {
        isFull = true;
        continue;
      }
      written.push({ namespace, count, untilMs: lookedMs + LONGEST_PAIR_MS });
      gone.push({ namespace, endpoint, frontends });
    }
    if (lost.size === 0) forget(watch, address);
    else due.add(address);
  }
  return { gone, isFull };
}

/** Finds the frontends (`address:port`) of a service port. Listing the node's own addresses takes long. */
function frontendFinder({ nodePortAddresses }: WatchedFamily): (port: PlannedPort | undefined) => readonly string[] {
  let own: readonly string[] | undefined;
  const addressesOf = (frontend: Frontend) => {
    if (frontend.kind !== "nodePort") return [frontend.address];
    own ??= nodePortAddresses();
    return own.filter((address) => isFrontendAt(frontend, address));
  };
  return (port) =>
    (port?.planned ? frontendsOf(port.planned) : [])
      .flatMap((frontend) => addressesOf(frontend).map((address) => joinHostPort(address, frontend.port)));
}

type Shares = ReturnType<typeof createShares>;

/**
 * Shares `most` places. A namespace never holds more than are left for the others: the first one gets half, the second one a
 * quarter, the tenth still a thousandth.
 */
function createShares(most: number) {
  const held = new Map<string, number>();
  let free = most;
  const heldBy = (namespace: string) => held.get(namespace) ?? 0;
  return {
    /** Takes places; false, without taking any, if the namespace would then have more than are left for all others. */
    take(namespace: string, count: number): boolean {
      const own = heldBy(namespace) + count;
      if (own > free - count) return false;
      held.set(namespace, own);
      free -= count;
      return true;
    },
    /** Gives places back. */
    release(namespace: string, count: number): void {
      const own = heldBy(namespace) - count;
      if (own > 0) held.set(namespace, own);
      else held.delete(namespace);
      free += count;
    },
  };
}
