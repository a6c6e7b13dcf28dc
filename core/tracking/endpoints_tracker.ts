import { compact, joinFlat, joinHostPort, sameData } from "../../platform/mod.ts";
import type { Protocol } from "../model/mod.ts";
import type { EndpointSlice, SliceEndpoint } from "../objects/mod.ts";
import { type ChangingMap, createChangingMap } from "./changing_map.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** An endpoint of a service port. */
export interface ServiceEndpoint {
  /** `address:port`, as the planner and the backends name it. */
  readonly target: string;
  readonly endpoint: SliceEndpoint;
}

/** A step from one version of a slice to the next. */
interface SliceStep {
  readonly before: EndpointSlice | undefined;
  readonly after: EndpointSlice | undefined;
}

/** The changed endpoints of one family. */
export interface EndpointChanges {
  /** The services whose slices changed. */
  readonly services: ReadonlySet<ServiceKey>;
  /** Every version of a slice that was set, and every deletion, in order; also of those that were reverted. */
  readonly steps: readonly SliceStep[];
  /**
   * The times at which the changes to a service's endpoints were triggered, in milliseconds since 1970: the network programming latency
   * runs from then until the sync that applies them.
   */
  readonly triggerTimesMs: ReadonlyMap<ServiceKey, readonly number[]>;
}

/** Tracks the EndpointSlices of one family by `namespace/name` (kube-proxy's EndpointSliceCache). */
export interface EndpointsTracker extends Pick<ChangingMap<EndpointSlice>, "keys" | "values" | "pending" | "total"> {
  /** Adds or updates a slice; a new trigger time alone is no change. */
  set(key: string, slice: EndpointSlice): void;
  delete(key: string): void;
  /** The slices of a service, by name. */
  slicesOf(service: ServiceKey): readonly EndpointSlice[];
  /**
   * The endpoints of a service port, sorted by target, without duplicates. Of several with the same target, one that is not
   * terminating wins, as in kube-proxy since 1.36 (addEndpoints in endpointslicecache.go): a pod network may reuse the
   * address of a pod that is shutting down. After that, kube-proxy's choice is random; here a ready one wins, then a
   * serving one, then the one in the first slice by name.
   */
  endpointsOf(service: ServiceKey, portName: string, protocol: Protocol): readonly ServiceEndpoint[];
  /** The changes since the last `take`. */
  take(): EndpointChanges;
}

const NO_SLICES: readonly EndpointSlice[] = [];

/** The endpoints of a service with several slices by port: protocol and name. Ports with duplicates are left out. */
interface Joined {
  readonly slices: readonly EndpointSlice[];
  readonly ports: Map<string, readonly ServiceEndpoint[]>;
  /** The endpoints before the slices changed, of ports that nobody has asked for since, and the change. */
  readonly before?: Pick<Joined, "ports"> & SlicesChange;
}

/**
 * A tracker without slices.
 * @param startedAtMs the start time of this process: changes triggered before it do not count for the latency
 */
export function createEndpointsTracker(startedAtMs: number): EndpointsTracker {
  const slices = createChangingMap<EndpointSlice>(sameSlice);
  const byService = new Map<ServiceKey, readonly EndpointSlice[]>();
  const joined = createJoinedSlices();
  let triggerTimes = new Map<ServiceKey, number[]>();
  let steps: SliceStep[] = [];
  // Steps before the first plan concern no connection of this process, and there may be many until all sources are synced.
  let isTaken = false;

  const detach = (slice: EndpointSlice) => {
    const service = serviceOf(slice);
    const left = byService.get(service)!.filter((other) => other.name !== slice.name);
    if (left.length > 0) return byService.set(service, left);
    byService.delete(service);
    joined.delete(service);
  };

  const slicesOf = (service: ServiceKey) => byService.get(service) ?? NO_SLICES;

  return {
    keys: slices.keys,
    values: slices.values,
    slicesOf,
    endpointsOf: (service, portName, protocol) => joined.endpointsOf(service, slicesOf(service), portName, protocol),
    set(key, set) {
      const before = slices.get(key), slice = before === undefined ? set : withKnownEndpoints(set, before);
      if (!slices.set(key, slice)) return;
      if (isTaken) steps.push({ before, after: slice });
      if (before !== undefined) detach(before);
      const service = serviceOf(slice), siblings = byService.get(service);
      if (siblings === undefined) byService.set(service, [slice]);
      else {
        const position = siblings.findIndex((other) => slice.name < other.name);
        byService.set(service, siblings.toSpliced(position === -1 ? siblings.length : position, 0, slice));
      }
      if (slice.triggerTimeMs <= startedAtMs) return;
      const times = triggerTimes.get(service);
      if (times === undefined) triggerTimes.set(service, [slice.triggerTimeMs]);
      else times.push(slice.triggerTimeMs);
    },
    delete(key) {
      const slice = slices.get(key);
      if (slice === undefined) return;
      slices.delete(key);
      if (isTaken) steps.push({ before: slice, after: undefined });
      detach(slice);
      // A deleted slice carries the time of its last update, not of its deletion.
      triggerTimes.delete(serviceOf(slice));
    },
    pending: slices.pending,
    total: slices.total,
    take() {
      const services = new Set<ServiceKey>();
      for (const [key, before] of slices.take()) {
        for (const slice of [before, slices.get(key)]) if (slice !== undefined) services.add(serviceOf(slice));
      }
      const taken = { services, steps, triggerTimesMs: triggerTimes };
      steps = [];
      isTaken = true;
      triggerTimes = new Map();
      return taken;
    },
  };
}

/** The endpoints of services with several slices, which are found from the last ones after a change. */
function createJoinedSlices() {
  const joined = new Map<ServiceKey, Joined>();
  const joinedOf = (service: ServiceKey, slices: readonly EndpointSlice[]): Joined => {
    const known = joined.get(service);
    if (known?.slices === slices) return known;
    const before = known && { ports: known.ports, ...slicesChange(known.slices, slices) };
    const current = { slices, ports: new Map(), before };
    joined.set(service, current);
    return current;
  };
  return {
    delete: (service: ServiceKey) => void joined.delete(service),
    /** The endpoints of a port of a service, which has these slices; see `EndpointsTracker.endpointsOf`. */
    endpointsOf(
      service: ServiceKey,
      all: readonly EndpointSlice[],
      portName: string,
      protocol: Protocol,
    ): readonly ServiceEndpoint[] {
      if (all.length < 2) {
        joined.delete(service);
        return endpointsOfSlices(all, portName, protocol);
      }
      const { ports, before } = joinedOf(service, all), id = `${protocol} ${portName}`;
      const known = ports.get(id);
      if (known !== undefined) return known;
      const earlier = before?.ports.get(id);
      before?.ports.delete(id);
      const changed = earlier && changedEndpoints(earlier, before!, portName, protocol);
      if (changed !== undefined) {
        ports.set(id, changed);
        return changed;
      }
      const sorted = sortedEndpoints(all, portName, protocol), endpoints = withoutDuplicates(sorted);
      // One with duplicates needs a look at all slices: when the first of them goes, the next one counts.
      if (endpoints === sorted) ports.set(id, compact(sorted));
      return endpoints;
    },
  };
}

/** The endpoints that slices of one family, sorted by name, give a service port; see `EndpointsTracker.endpointsOf`. */
export function endpointsOfSlices(
  slices: readonly EndpointSlice[],
  portName: string,
  protocol: Protocol,
): readonly ServiceEndpoint[] {
  return withoutDuplicates(sortedEndpoints(slices, portName, protocol));
}

function sortedEndpoints(slices: readonly EndpointSlice[], portName: string, protocol: Protocol): ServiceEndpoint[] {
  const found: ServiceEndpoint[] = [];
  let isSorted = true;
  for (const slice of slices) {
    for (const port of portNumbers(slice.ports, portName, protocol)) {
      for (const endpoint of slice.endpoints) {
        const target = joinHostPort(endpoint.address, port);
        isSorted &&= found.length === 0 || found[found.length - 1]!.target < target;
        found.push({ target, endpoint });
      }
    }
  }
  if (isSorted) return found;
  return found.sort((a, b) => a.target < b.target ? -1 : a.target > b.target ? 1 : preference(a.endpoint, b.endpoint));
}

/** The first of the endpoints with the same target, of sorted ones; the same list if there are no others. */
function withoutDuplicates(sorted: readonly ServiceEndpoint[]): readonly ServiceEndpoint[] {
  const isFirst = ({ target }: ServiceEndpoint, i: number) => i === 0 || target !== sorted[i - 1]!.target;
  return sorted.every(isFirst) ? sorted : sorted.filter(isFirst);
}

/** The difference between two versions of a service's slices. */
interface SlicesChange {
  /** The endpoints of former slices, except for those that are in `after` unchanged. */
  readonly gone: ReadonlySet<SliceEndpoint>;
  /** The changed slices, with their new endpoints only. */
  readonly changed: readonly EndpointSlice[];
}

function slicesChange(before: readonly EndpointSlice[], after: readonly EndpointSlice[]): SlicesChange {
  const was = new Set(before), is = new Set(after);
  const former = new Set(before.filter((slice) => !is.has(slice)).flatMap(({ endpoints }) => endpoints));
  const changed = after.filter((slice) => !was.has(slice));
  const current = new Set(changed.flatMap(({ endpoints }) => endpoints));
  return {
    gone: former.difference(current),
    changed: changed.map((slice) => ({ ...slice, endpoints: slice.endpoints.filter((one) => !former.has(one)) })),
  };
}

/**
 * The endpoints of a service port after a change of slices, from those before, all with different targets. Those that stay are
 * the same objects. Undefined if some have the same target now.
 */
function changedEndpoints(
  before: readonly ServiceEndpoint[],
  { gone, changed }: SlicesChange,
  portName: string,
  protocol: Protocol,
): readonly ServiceEndpoint[] | undefined {
  const added = sortedEndpoints(changed, portName, protocol), endpoints: ServiceEndpoint[] = [];
  let next = 0;
  for (const one of before) {
    if (gone.has(one.endpoint)) continue;
    while (next < added.length && added[next]!.target < one.target) endpoints.push(added[next++]!);
    endpoints.push(one);
  }
  for (; next < added.length; next++) endpoints.push(added[next]!);
  return withoutDuplicates(endpoints) === endpoints ? compact(endpoints) : undefined;
}

/** A slice with the endpoints of its last version, as far as they are the same: an unchanged endpoint stays the same object. */
function withKnownEndpoints(slice: EndpointSlice, before: EndpointSlice): EndpointSlice {
  if (!sameData(slice.ports, before.ports)) return slice;
  const known = new Map(before.endpoints.map((endpoint) => [endpoint.address, endpoint]));
  const endpoints = slice.endpoints.map((endpoint) => {
    const last = known.get(endpoint.address);
    return sameData(last, endpoint) ? last! : endpoint;
  });
  return { ...slice, endpoints };
}

/** The most ports that are searched one by one. */
const FEW_PORTS = 8;
const portIndexes = new WeakMap<EndpointSlice["ports"], ReadonlyMap<string, EndpointSlice["ports"]>>();

/** The numbers of the ports with this name. A slice may have 20,000 ports, and its service as many. */
function portNumbers(ports: EndpointSlice["ports"], name: string, protocol: Protocol): readonly number[] {
  if (ports.length <= FEW_PORTS) {
    return ports.flatMap((one) => one.name === name && one.protocol === protocol ? [one.port] : []);
  }
  const idOf = (one: { readonly name: string; readonly protocol: Protocol }) => joinFlat("|", one.name, one.protocol);
  let index = portIndexes.get(ports);
  if (index === undefined) portIndexes.set(ports, index = Map.groupBy(ports, idOf));
  return index.get(idOf({ name, protocol }))?.map(({ port }) => port) ?? [];
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
