/** Finds TCP endpoints that have died, and has the worker reset the connections of services to them. */
import {
  type Frontend,
  frontendsOf,
  isFrontendAt,
  servicePortKey,
  type ServicePortName,
} from "../../core/model/mod.ts";
import type { EndpointSlice } from "../../core/objects/mod.ts";
import { servicePortName } from "../../core/planning/mod.ts";
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
/** The most addresses that are remembered, and the most that services have lost of each. */
const MOST_ADDRESSES = 10_000, MOST_LOST = 64;

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
 * a death: other endpoints may live on when they leave.
 * @param tracked the current slices of the family
 * @returns the listener to rounds of planning
 */
export function watchGone(
  { clock, signal, ledgers }: Pick<Node, "clock" | "signal" | "ledgers">,
  { family, portsOf, nodePortAddresses, call }: Pick<NodeFamily, "family" | "portsOf" | "nodePortAddresses" | "call">,
  tracked: Pick<Tracking["endpoints"]["IPv4"], "values" | "slicesOf">,
): (changes: Pick<TrackedChanges, "endpoints">) => void {
  const suspects = new Map<string, Suspect>();
  /** The suspects to look for in the slices, since they have left one. */
  const due = new Set<string>();
  let isWaiting = false, lookedMs = -Infinity;
  let cancel = () => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const lose = ({ namespace, serviceName, ports }: EndpointSlice, address: string) => {
    const ofService = tracked.slicesOf(serviceKey(namespace, serviceName));
    // Another pod of the service has its address already.
    if (ofService.some((slice) => slice.endpoints.some((one) => one.address === address && !one.terminating))) return;
    let suspect = suspects.get(address);
    if (suspect === undefined) {
      if (suspects.size >= MOST_ADDRESSES) return;
      suspects.set(address, suspect = { leftMs: 0, provenMs: 0, lost: new Map() });
    }
    suspect.provenMs = clock.monotonic();
    for (const { name: port, protocol, port: number } of ports) {
      if (protocol !== "tcp" || suspect.lost.size >= MOST_LOST) continue;
      const name = servicePortName({ namespace, name: serviceName }, { name: port });
      const endpoint = joinHostPort(address, number);
      suspect.lost.set(`${name} ${endpoint}`, { name, endpoint });
    }
  };
  /** Another pod of the service has got the address. */
  const regain = (address: string, service: ServiceKey) => {
    const { lost } = suspects.get(address)!;
    for (const [id, { name }] of lost) if (serviceKeyOf(name) === service) lost.delete(id);
    if (lost.size === 0) forget(address);
  };
  const forget = (address: string) => {
    suspects.delete(address);
    due.delete(address);
  };

  const portNamed = (name: ServicePortName) => {
    const key = servicePortKey(name, "tcp");
    return portsOf(serviceKeyOf(name)).find((port) => port.key === key);
  };
  /** Whether the kernel sends new connections of a service port only to the endpoints of its current plan. */
  const isInEffect = ({ name }: Lost) => {
    const port = portNamed(name);
    return port === undefined || ledgers[family].effect(name, port.plannedIn, true).state === "in effect";
  };
  const look = (dueMs: number) => {
    // A timer may end a fraction of a millisecond early.
    lookedMs = Math.max(dueMs, clock.monotonic());
    const absent = new Map<string, Suspect>();
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
    const gone = [];
    for (const [address, { lost }] of absent) {
      for (const [id, one] of lost) {
        // One that is not in effect yet, or never will be, delays no other.
        if (!isInEffect(one)) continue;
        lost.delete(id);
        const { name, endpoint } = one;
        const planned = portNamed(name)?.planned;
        const frontends = (planned ? frontendsOf(planned) : []).flatMap((frontend) =>
          addressesOf(frontend).map((at) => joinHostPort(at, frontend.port))
        );
        if (frontends.length > 0) gone.push({ endpoint, frontends });
      }
      if (lost.size === 0) forget(address);
      else due.add(address);
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

  return ({ endpoints }) => {
    for (const { before, after } of endpoints[family].steps) {
      if (suspects.size === 0 && !before?.endpoints.some(({ terminating }) => terminating)) continue;
      const current = new Set(after?.endpoints.map(({ address }) => address));
      for (const { address, terminating } of before?.endpoints ?? []) {
        if (current.has(address)) continue;
        if (terminating) lose(before!, address);
        const suspect = suspects.get(address);
        if (suspect === undefined) continue;
        suspect.leftMs = clock.monotonic();
        due.add(address);
      }
      const service = after && serviceKey(after.namespace, after.serviceName);
      for (const { address, terminating } of after?.endpoints ?? []) {
        if (!terminating && suspects.has(address)) regain(address, service!);
      }
    }
    lookLater();
  };
}
