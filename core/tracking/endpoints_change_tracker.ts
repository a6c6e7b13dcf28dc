import type { EndpointSlice } from "../objects/mod.ts";
import { createEndpointSliceCache, type EndpointSliceCache } from "./endpoint_slice_cache.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** The changed endpoints of one family. */
export interface EndpointChanges {
  /** The services whose slices changed. */
  readonly services: ReadonlySet<ServiceKey>;
  /**
   * The times at which the changes to a service's endpoints were triggered, in milliseconds since 1970: the network programming latency
   * runs from then until the sync that applies them.
   */
  readonly triggerTimesMs: ReadonlyMap<ServiceKey, readonly number[]>;
}

/** Tracks the endpoints of one family and their changes (kube-proxy's EndpointsChangeTracker). */
export interface EndpointsChangeTracker
  extends Pick<EndpointSliceCache, "keys" | "values" | "slicesOf" | "endpointsOf"> {
  /** Adds or updates a slice of this family. */
  update(slice: EndpointSlice): void;
  delete(namespace: string, name: string): void;
  /** The number of slices changed since the last `take`. */
  pending(): number;
  /** The number of updates so far, including those that changed nothing. */
  total(): number;
  /** The changes since the last `take`. */
  take(): EndpointChanges;
}

/** Options of `createEndpointsChangeTracker`. */
export interface EndpointsChangeTrackerOptions {
  /** The start time of this process: changes triggered before it do not count for the latency. */
  readonly startedAtMs: number;
}

/** A tracker without endpoints. */
export function createEndpointsChangeTracker(options: EndpointsChangeTrackerOptions): EndpointsChangeTracker {
  const cache = createEndpointSliceCache();
  let triggerTimes = new Map<ServiceKey, number[]>();
  let total = 0;

  return {
    keys: cache.keys,
    values: cache.values,
    slicesOf: cache.slicesOf,
    endpointsOf: cache.endpointsOf,
    update(slice) {
      total++;
      if (!cache.set(slice) || slice.triggerTimeMs <= options.startedAtMs) return;
      const service = serviceKey(slice.namespace, slice.serviceName);
      const times = triggerTimes.get(service);
      if (times === undefined) triggerTimes.set(service, [slice.triggerTimeMs]);
      else times.push(slice.triggerTimeMs);
    },
    delete(namespace, name) {
      const slice = cache.delete(namespace, name);
      if (slice === undefined) return;
      total++;
      // The time on a deleted slice is that of its last update, not of the deletion.
      triggerTimes.delete(serviceKey(namespace, slice.serviceName));
    },
    pending: cache.pending,
    total: () => total,
    take() {
      const taken = { services: cache.take(), triggerTimesMs: triggerTimes };
      triggerTimes = new Map();
      return taken;
    },
  };
}
