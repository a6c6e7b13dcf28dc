import type { ClusterObject, EndpointSlice } from "../../core/objects/mod.ts";
import { type ServiceKey, serviceKey } from "../../core/tracking/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { Node, NodeFamily, RunningFeature } from "../contract.ts";

/** Tells a family which TCP endpoints have left every EndpointSlice, regardless of their conditions. */
export type GoneReporter = Required<Pick<RunningFeature, "planned" | "earlier">>;

/** The time that an endpoint must be in no slice: a controller may move it from one slice to another. */
const SETTLED_MS = 500;
/** The shortest time between two looks at all slices. */
const LOOK_EVERY_MS = 100;

/** An address that has left a slice. */
interface Suspect {
  readonly ports: Set<number>;
  /** The time at which it last left one, by the monotonic clock. */
  leftMs: number;
  /** Whether it was terminating or not ready when it left. */
  hasStopped: boolean;
  /** The services whose slices it left while it was ready. */
  readonly services: Set<ServiceKey>;
}

/**
 * Reports the endpoints of a family whose addresses are in no slice any more. A ready endpoint counts only if a service that had
 * it still exists, with slices: a service that is deleted, maybe to be created again, says nothing about its pods.
 * @param slices the current slices of the family
 * @param isServed whether a service exists and has slices of the family
 */
export function reportGone(
  { clock, signal }: Pick<Node, "clock" | "signal">,
  { family, noteGone }: Pick<NodeFamily, "family" | "noteGone">,
  slices: () => Iterable<EndpointSlice>,
  isServed: (service: ServiceKey) => boolean,
): GoneReporter {
  const suspects = new Map<string, Suspect>();
  let hasPlanned = false, isDue = false;
  let cancel = () => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const suspect = ({ namespace, serviceName, ports, endpoints }: EndpointSlice) => {
    const numbers = ports.flatMap(({ protocol, port }) => protocol === "tcp" ? [port] : []);
    if (numbers.length === 0) return;
    for (const { address, ready, terminating } of endpoints) {
      let known = suspects.get(address);
      if (!known) {
        suspects.set(address, known = { ports: new Set(), leftMs: 0, hasStopped: false, services: new Set() });
      }
      known.leftMs = clock.monotonic();
      for (const port of numbers) known.ports.add(port);
      if (ready && !terminating) known.services.add(serviceKey(namespace, serviceName));
      else known.hasStopped = true;
    }
  };
  const look = (dueMs: number) => {
    // If this process was busy, events that have arrived meanwhile come first.
    if (clock.monotonic() > dueMs + LOOK_EVERY_MS) return wait(LOOK_EVERY_MS, Infinity);
    isDue = false;
    const settled = new Map<string, Suspect>(), latestMs = clock.monotonic() - SETTLED_MS;
    for (const [address, current] of suspects) {
      if (current.leftMs > latestMs) continue;
      suspects.delete(address);
      settled.set(address, current);
    }
    if (settled.size > 0) report(settled);
    lookLater();
  };
  const report = (settled: Map<string, Suspect>) => {
    for (const { endpoints } of slices()) for (const { address } of endpoints) settled.delete(address);
    const gone = [...settled].flatMap(([address, { ports, hasStopped, services }]) => (
      hasStopped || [...services].some(isServed) ? [...ports].map((port) => joinHostPort(address, port)) : []
    ));
    if (gone.length > 0) noteGone(gone);
  };
  const lookLater = () => {
    // Before the first plan, the current slices are unknown.
    if (!hasPlanned || isDue || suspects.size === 0) return;
    isDue = true;
    const firstMs = [...suspects.values()].reduce((first, { leftMs }) => Math.min(first, leftMs), Infinity);
    const delayMs = Math.max(LOOK_EVERY_MS, firstMs + SETTLED_MS - clock.monotonic());
    wait(delayMs, clock.monotonic() + delayMs);
  };
  const wait = (delayMs: number, dueMs: number) => {
    cancel = clock.schedule(delayMs, () => look(dueMs));
  };
  return {
    planned({ endpoints }) {
      hasPlanned = true;
      endpoints[family].previous.forEach(suspect);
      lookLater();
    },
    earlier(objects: readonly ClusterObject[]) {
      for (const object of objects) if (object.kind === "EndpointSlice" && object.family === family) suspect(object);
      lookLater();
    },
  };
}
