import type { EndpointSlice } from "../objects/mod.ts";
import { createEndpointSliceCache, type EndpointSliceCache } from "./endpoint_slice_cache.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** What became of the endpoints of one family. */
export interface EndpointChanges {
  /** The services whose slices differ from what they were. */
  readonly services: ReadonlySet<ServiceKey>;
  /**
   * By service, when the changes to its endpoints were triggered, in milliseconds since 1970: what the network
   * programming latency is counted from. They belong to the sync that brings these changes to the kernel.
   */
  readonly triggerTimesMs: ReadonlyMap<ServiceKey, readonly number[]>;
}

/** The endpoints of one family, and which of them have changed (kube-proxy's EndpointsChangeTracker). */
export interface EndpointsChangeTracker extends Pick<EndpointSliceCache, "keys" | "slicesOf" | "endpointsOf"> {
  /** The slice, which is of this family, looks like this. */
  update(slice: EndpointSlice): void;
  delete(namespace: string, name: string): void;
  /** How many slices differ from what they were at the last `take`. */
  pending(): number;
  /** How many updates there were so far, those that changed nothing among them. */
  total(): number;
  /** What has changed since the last `take`. */
  take(): EndpointChanges;
}

/** What a tracker needs to know. */
export interface EndpointsChangeTrackerOptions {
  /** When this process began to watch: what was triggered before says nothing about its latency. */
  readonly startedAtMs: number;
}

/** A tracker that knows of no endpoint. */
export function createEndpointsChangeTracker(options: EndpointsChangeTrackerOptions): EndpointsChangeTracker {
  const cache = createEndpointSliceCache();
  let triggerTimes = new Map<ServiceKey, number[]>();
  let total = 0;

  return {
    keys: cache.keys,
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
      // The time on a deleted slice is that of its last update, and no longer says when anything was triggered.
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
