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
import { createShares } from "./shares.ts";

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

/** An address that was terminating when it left a slice. */
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

/**
 * Watches the slices of a family. An endpoint is dead if it was terminating when it left a slice, and no slice of any service has
 * its address any more. Connections are reset that go to it through services which have lost it so. Nothing else proves
 * a death: other endpoints may live on when they leave, and so may all that a service loses because of another selector.
 * @param tracked the current slices of the family
 * @returns the listener to rounds of planning
 */
export function watchGone(
  { clock, logger, signal, ledgers }: Pick<Node, "clock" | "logger" | "signal" | "ledgers">,
  { family, portsOf, nodePortAddresses, call }: Pick<NodeFamily, "family" | "portsOf" | "nodePortAddresses" | "call">,
  tracked: Pick<Tracking["endpoints"]["IPv4"], "values" | "slicesOf">,
): (changes: Pick<TrackedChanges, "endpoints" | "reselected">) => void {
  const suspects = new Map<string, Suspect>();
  const remembered = createShares(MOST_LOST), pairs = createShares(MOST_PAIRS);
  /** The pairs that the kernel has got, oldest first. */
  const written: { readonly namespace: string; readonly count: number; readonly untilMs: number }[] = [];
  /** The services whose selector has changed, and when; oldest first. */
  const reselectedMs = new Map<ServiceKey, number>();
  /** The suspects to look for in the slices, since they have left one. */
  const due = new Set<string>();
  let isWaiting = false, lookedMs = -Infinity;
  let cancel = () => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const living = new Map<ServiceKey, ReadonlySet<string>>();
  /** The addresses of the endpoints of a service that are not terminating; kept for a round, as a slice may lose very many. */
  const livingIn = (service: ServiceKey): ReadonlySet<string> => {
    const found = living.get(service) ?? new Set(
      tracked.slicesOf(service).flatMap(({ endpoints }) =>
        endpoints.flatMap(({ address, terminating }) => terminating ? [] : [address])
      ),
    );
    living.set(service, found);
    return found;
  };
  const lose = ({ namespace, serviceName, ports }: EndpointSlice, address: string) => {
    const service = serviceKey(namespace, serviceName);
    // Another pod of the service may have its address already.
    if (reselectedMs.has(service) || livingIn(service).has(address)) return;
    const suspect = suspects.get(address) ?? { leftMs: 0, provenMs: 0, lost: new Map<string, Lost>() };
    suspect.provenMs = clock.monotonic();
    for (const { name: port, protocol, port: number } of ports) {
      if (protocol !== "tcp") continue;
      const name = servicePortName({ namespace, name: serviceName }, { name: port });
      const endpoint = joinHostPort(address, number), id = `${name} ${endpoint}`;
      if (!suspect.lost.has(id) && remembered.take(namespace, 1)) suspect.lost.set(id, { name, endpoint });
    }
    if (suspect.lost.size > 0) suspects.set(address, suspect);
  };
  /** Forgets what is lost of an address, or what these services have lost. */
  const forget = (address: string, services?: ReadonlySet<ServiceKey>) => {
    const { lost } = suspects.get(address)!;
    for (const [id, { name }] of lost) {
      if (services === undefined || services.has(serviceKeyOf(name))) drop(lost, id, name);
    }
    if (lost.size > 0) return;
    suspects.delete(address);
    due.delete(address);
  };
  const drop = (lost: Map<string, Lost>, id: string, name: ServicePortName) => {
    lost.delete(id);
    remembered.release(namespaceOf(name), 1);
  };

  /** Finds TCP service ports by name; a service may have very many of them. */
  const portFinder = () => {
    const known = new Map<ServiceKey, ReadonlyMap<string, PlannedPort>>();
    return (name: ServicePortName) => {
      const service = serviceKeyOf(name);
      const ports = known.get(service) ?? new Map(portsOf(service).map((port) => [port.key, port]));
      known.set(service, ports);
      return ports.get(servicePortKey(name, "tcp"));
    };
  };
  /** Whether the kernel sends new connections of a service port only to the endpoints of its current plan. */
  const isInEffect = (name: ServicePortName, port: PlannedPort | undefined) =>
    port === undefined || ledgers[family].effect(name, port.plannedIn, true).state === "in effect";
  const look = (dueMs: number) => {
    // A timer may end a fraction of a millisecond early.
    lookedMs = Math.max(dueMs, clock.monotonic());
    const absent = new Map<string, Suspect>();
    while (written[0] !== undefined && written[0].untilMs <= lookedMs) {
      const { namespace, count } = written.shift()!;
      pairs.release(namespace, count);
    }
    for (const [address, suspect] of suspects) {
      if (suspect.provenMs + LONGEST_MS < lookedMs) forget(address);
      else if (suspect.leftMs + SETTLED_MS <= lookedMs && due.delete(address)) absent.set(address, suspect);
    }
    if (absent.size === 0) return;
    for (const { endpoints } of tracked.values()) for (const { address } of endpoints) absent.delete(address);
    let own: readonly string[] | undefined;
    const addressesOf = (frontend: Frontend) => {
      if (frontend.kind !== "nodePort") return [frontend.address];
      own ??= nodePortAddresses();
      return own.filter((address) => isFrontendAt(frontend, address));
    };
    const gone: GoneEndpoint[] = [], portNamed = portFinder();
    let isFull = false;
    for (const [address, { lost }] of absent) {
      for (const [id, one] of lost) {
        const { name, endpoint } = one, namespace = namespaceOf(name), port = portNamed(name);
        // One that is not in effect yet, or never will be, delays no other.
        if (!isInEffect(name, port)) continue;
        drop(lost, id, name);
        const planned = port?.planned;
        const frontends = (planned ? frontendsOf(planned) : []).flatMap((frontend) =>
          addressesOf(frontend).map((at) => joinHostPort(at, frontend.port))
        );
        const count = frontends.length;
        if (count === 0) continue;
        if (!pairs.take(namespace, count)) {
          isFull = true;
          continue;
        }
        written.push({ namespace, count, untilMs: lookedMs + LONGEST_PAIR_MS });
        gone.push({ namespace, endpoint, frontends });
      }
      if (lost.size === 0) forget(address);
      else due.add(address);
    }
    if (isFull) {
      logger.warn("too many deleted endpoints: connections to some are not reset", { family, most: MOST_PAIRS });
    }
    if (gone.length > 0) void call(resetGone, gone);
  };
  const lookLater = () => {
    if (isWaiting || due.size === 0) return;
    isWaiting = true;
    const firstMs = due.values().reduce((first, one) => Math.min(first, suspects.get(one)!.leftMs), Infinity);
    const dueMs = Math.max(firstMs + SETTLED_MS, lookedMs + LOOK_EVERY_MS);
    const wait = (delayMs: number) => {
      cancel = clock.schedule(delayMs, () => {
        if (clock.monotonic() > dueMs + LATE_MS && delayMs !== LATE_MS) return wait(LATE_MS);
        isWaiting = false;
        look(dueMs);
        lookLater();
      });
    };
    wait(dueMs - clock.monotonic());
  };

  return ({ endpoints, reselected }) => {
    const nowMs = clock.monotonic();
    for (const [service, atMs] of reselectedMs) if (atMs + RESELECTED_MS <= nowMs) reselectedMs.delete(service);
    if (reselected.size > 0) {
      for (const service of reselected) {
        reselectedMs.delete(service);
        reselectedMs.set(service, nowMs);
      }
      // Its slices may have changed before this was known.
      for (const address of suspects.keys()) forget(address, reselected);
    }
    for (const { before, after } of endpoints[family].steps) {
      if (suspects.size === 0 && !before?.endpoints.some(({ terminating }) => terminating)) continue;
      const current = new Set(after?.endpoints.map(({ address }) => address));
      for (const { address, terminating } of before?.endpoints ?? []) {
        if (current.has(address)) continue;
        if (terminating) lose(before!, address);
        const suspect = suspects.get(address);
        if (suspect === undefined) continue;
        suspect.leftMs = nowMs;
        due.add(address);
      }
      const service = new Set(after && [serviceKey(after.namespace, after.serviceName)]);
      for (const { address, terminating } of after?.endpoints ?? []) {
        // Another pod of the service has got the address.
        if (!terminating && suspects.has(address)) forget(address, service);
      }
    }
    living.clear();
    lookLater();
  };
}
