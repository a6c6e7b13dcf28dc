import type { ClusterObject, EndpointSlice } from "../../core/objects/mod.ts";
import { type ServiceKey, serviceKey } from "../../core/tracking/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { Node, NodeFamily, RunningFeature } from "../contract.ts";

/** Tells a family which TCP endpoints have left every EndpointSlice, regardless of their conditions. */
export type GoneReporter = Required<Pick<RunningFeature, "planned" | "earlier">>;

/** The time that an endpoint must be in no slice: a controller may move it from one slice to another. */
const SETTLED_MS = 500;

/** An address that has left a slice. */
interface Suspect {
  readonly ports: Set<number>;
  /** Whether it was terminating or not ready when it left. */
  hasStopped: boolean;
  /** The services whose slices it left while it was ready. */
  readonly services: Set<ServiceKey>;
}

/**
 * Reports the endpoints of a family that are gone. Ready endpoints whose slices were deleted with their service are not: a
 * service that is deleted, maybe to be created again, says nothing about its pods.
 * @param slices the current slices of the family
 * @param hasService whether the cluster has a service
 */
export function reportGone(
  { clock, signal }: Pick<Node, "clock" | "signal">,
  { family, noteGone }: Pick<NodeFamily, "family" | "noteGone">,
  slices: () => Iterable<EndpointSlice>,
  hasService: (service: ServiceKey) => boolean,
): GoneReporter {
  let suspects = new Map<string, Suspect>();
  let hasPlanned = false, isDue = false;
  let cancel = () => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const suspect = ({ namespace, serviceName, ports, endpoints }: EndpointSlice) => {
    const numbers = ports.flatMap(({ protocol, port }) => protocol === "tcp" ? [port] : []);
    if (numbers.length === 0) return;
    for (const { address, ready, terminating } of endpoints) {
      let known = suspects.get(address);
      if (!known) suspects.set(address, known = { ports: new Set(), hasStopped: false, services: new Set() });
      for (const port of numbers) known.ports.add(port);
      if (ready && !terminating) known.services.add(serviceKey(namespace, serviceName));
      else known.hasStopped = true;
    }
  };
  const report = () => {
    isDue = false;
    for (const { ports, endpoints } of slices()) {
      for (const { address } of endpoints) {
        const current = suspects.get(address);
        if (current) { for (const { protocol, port } of ports) if (protocol === "tcp") current.ports.delete(port); }
      }
    }
    const gone = [...suspects].flatMap(([address, { ports, hasStopped, services }]) => (
      hasStopped || [...services].some(hasService) ? [...ports].map((port) => joinHostPort(address, port)) : []
    ));
    suspects = new Map();
    if (gone.length > 0) noteGone(gone);
  };
  const reportLater = () => {
    // Before the first plan, the current slices are unknown.
    if (!hasPlanned || isDue || suspects.size === 0) return;
    isDue = true;
    cancel = clock.schedule(SETTLED_MS, report);
  };
  return {
    planned({ endpoints }) {
      hasPlanned = true;
      endpoints[family].previous.forEach(suspect);
      reportLater();
    },
    earlier(objects: readonly ClusterObject[]) {
      for (const object of objects) if (object.kind === "EndpointSlice" && object.family === family) suspect(object);
      reportLater();
    },
  };
}
