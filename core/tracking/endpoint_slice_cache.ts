import { joinHostPort, sameData } from "../../platform/mod.ts";
import type { Protocol } from "../model/mod.ts";
import type { EndpointSlice, SliceEndpoint } from "../objects/mod.ts";
import { createChangingMap } from "./changing_map.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** An endpoint of a service port. */
export interface ServiceEndpoint {
  /** `address:port`, as the planner and the backends name it. */
  readonly target: string;
  readonly endpoint: SliceEndpoint;
}

/** The EndpointSlices of one family, by service (kube-proxy's EndpointSliceCache). */
export interface EndpointSliceCache {
  /** Adds or updates a slice. Returns whether that changed anything; a new trigger time alone does not count. */
  set(slice: EndpointSlice): boolean;
  /** Deletes a slice and returns it; undefined if there was none. */
  delete(namespace: string, name: string): EndpointSlice | undefined;
  /** The keys of all slices: `namespace/name`. */
  keys(): Iterable<string>;
  /** All slices; the iteration may continue after changes. */
  values(): Iterable<EndpointSlice>;
  /** The slices of a service, by name. */
  slicesOf(service: ServiceKey): readonly EndpointSlice[];
  /**
   * The endpoints of a service port, sorted by target, without duplicates. Of several with the same target, one that is not
   * terminating wins, as in kube-proxy since 1.36 (addEndpoints in endpointslicecache.go): a pod network may reuse the
   * address of a pod that is shutting down. After that, kube-proxy's choice is random; here a ready one wins, then a
   * serving one, then the one in the first slice by name.
   */
  endpointsOf(service: ServiceKey, portName: string, protocol: Protocol): readonly ServiceEndpoint[];
  /** The number of slices changed since the last `take`. */
  pending(): number;
  /** The services with a slice changed since the last `take`. */
  take(): ReadonlySet<ServiceKey>;
}

const NO_SLICES: readonly EndpointSlice[] = [];

/** An empty cache. */
export function createEndpointSliceCache(): EndpointSliceCache {
  const slices = createChangingMap<EndpointSlice>(sameSlice);
  const byService = new Map<ServiceKey, EndpointSlice[]>();

  const detach = (slice: EndpointSlice) => {
    const service = serviceOf(slice);
    const left = byService.get(service)!.filter((other) => other.name !== slice.name);
    if (left.length === 0) byService.delete(service);
    else byService.set(service, left);
  };

  const attach = (slice: EndpointSlice) => {
    const service = serviceOf(slice);
    const siblings = byService.get(service);
    if (siblings === undefined) {
      byService.set(service, [slice]);
      return;
    }
    const position = siblings.findIndex((other) => slice.name < other.name);
    siblings.splice(position === -1 ? siblings.length : position, 0, slice);
  };

  return {
    set(slice) {
      const key = serviceKey(slice.namespace, slice.name);
      const before = slices.get(key);
      if (!slices.put(key, slice)) return false;
      if (before !== undefined) detach(before);
      attach(slice);
      return true;
    },
    delete(namespace, name) {
      const key = serviceKey(namespace, name);
      const before = slices.get(key);
      if (before === undefined) return undefined;
      slices.put(key, undefined);
      detach(before);
      return before;
    },
    keys: slices.keys,
    values: slices.values,
    slicesOf: (service) => byService.get(service) ?? NO_SLICES,
    endpointsOf(service, portName, protocol) {
      return endpointsOfSlices(byService.get(service) ?? NO_SLICES, portName, protocol);
    },
    pending: slices.pending,
    take() {
      const services = new Set<ServiceKey>();
      for (const [key, previous] of slices.take()) {
        if (previous !== undefined) services.add(serviceOf(previous));
        const current = slices.get(key);
        if (current !== undefined) services.add(serviceOf(current));
      }
      return services;
    },
  };
}

/** The endpoints that slices of one family, sorted by name, give a service port; see `EndpointSliceCache.endpointsOf`. */
export function endpointsOfSlices(
  slices: readonly EndpointSlice[],
  portName: string,
  protocol: Protocol,
): readonly ServiceEndpoint[] {
  const found: ServiceEndpoint[] = [];
  let isSorted = true;
  for (const slice of slices) {
    for (const { name, protocol: portProtocol, port } of slice.ports) {
      if (name !== portName || portProtocol !== protocol) continue;
      for (const endpoint of slice.endpoints) {
        const target = joinHostPort(endpoint.address, port);
        isSorted &&= found.length === 0 || found[found.length - 1]!.target < target;
        found.push({ target, endpoint });
      }
    }
  }
  if (isSorted) return found;
  found.sort((a, b) => a.target < b.target ? -1 : a.target > b.target ? 1 : preference(a.endpoint, b.endpoint));
  return found.filter((endpoint, i) => i === 0 || endpoint.target !== found[i - 1]!.target);
}

function serviceOf(slice: EndpointSlice): ServiceKey {
  return serviceKey(slice.namespace, slice.serviceName);
}

/** Whether two slices are equal except for their trigger times. */
export function sameSlice(a: EndpointSlice, b: EndpointSlice): boolean {
  return sameData({ ...a, triggerTimeMs: 0 }, { ...b, triggerTimeMs: 0 });
}

/** Compares endpoints with the same target: negative if `a` wins. */
function preference(a: SliceEndpoint, b: SliceEndpoint): number {
  return Number(a.terminating) - Number(b.terminating) ||
    Number(b.ready) - Number(a.ready) ||
    Number(b.serving) - Number(a.serving);
}
