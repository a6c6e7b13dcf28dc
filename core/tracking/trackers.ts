/** Combines the trackers behind one sink and collects changes until the planner takes them. */
import { type Clock, FAMILIES, type Family, otherFamily, specialRange } from "../../platform/mod.ts";
import {
  type ClusterObject,
  type EndpointSlice,
  type Kind,
  type ObjectRef,
  refOf,
  type SourceSink,
} from "../objects/mod.ts";
import { createObjectProblems, type ReportProblems } from "../problems/mod.ts";
import { createEndpointSliceCache, type EndpointSliceCache } from "./endpoint_slice_cache.ts";
import { createLabelTracker, type LabelTracker } from "./label_tracker.ts";
import { createNodeTracker, type NodeChange, type NodeTracker } from "./node_tracker.ts";
import { createResetTracker } from "./reset_tracker.ts";
import {
  createServiceChangeTracker,
  createServiceCIDRTracker,
  type ServiceChangeTracker,
  type ServiceCIDRTracker,
} from "./service_change_tracker.ts";
import { type ServiceKey, serviceKey, splitServiceKey } from "./service_key.ts";

/** The changes between two calls of `take`. */
export interface TrackedChanges {
  readonly services: ReadonlySet<ServiceKey>;
  readonly endpoints: Readonly<Record<Family, EndpointChanges>>;
  readonly node: NodeChange | undefined;
  /** Whether the ranges of cluster IPs changed. */
  readonly serviceRanges: boolean;
  /** Whether labels that weights may refer to changed. */
  readonly labels: boolean;
}

/** The trackers of all kinds of objects, fed by the sources. */
export interface Tracking extends SourceSink {
  readonly services: ServiceChangeTracker;
  readonly endpoints: Readonly<Record<Family, EndpointsChangeTracker>>;
  readonly node: NodeTracker;
  readonly serviceCIDRs: ServiceCIDRTracker;
  readonly labels: LabelTracker;
  /** All objects, as tracked: Services that are not served are left out. The iteration may continue after changes. */
  objects(): Iterable<ClusterObject>;
  /** Whether every kind has been synced; before that, the state is incomplete. */
  ready(): boolean;
  /** The changes since the last call. */
  take(): TrackedChanges;
}

/** Options of `createTracking`. */
export interface TrackingOptions {
  /** The kinds that the source reports; others need not be synced. */
  readonly kinds: readonly Kind[];
  readonly nodeName: string;
  /** kube-proxy's bindAddress. */
  readonly bindAddress: string;
  /** Whether to hold back all changes until a pod CIDR of this node is known. */
  readonly awaitsPodCIDR?: boolean;
  /** Whether external IPs of services are served; true by default. */
  readonly externalIPs?: boolean;
  readonly clock: Clock;
  /** Called when every kind has been synced, before `onChange`. */
  readonly onSynced?: () => void;
  /**
   * Called when there are changes to take: once when every kind is synced (and the pod CIDR is known, if required), even if the
   * cluster is empty, and then on the first change after each `take`. If the change is reverted before the `take`, there is
   * nothing to take.
   */
  readonly onChange: () => void;
  /** See `SourceSink.problems`. */
  readonly onProblems: ReportProblems;
}

/** Trackers without objects. */
export function createTracking(options: TrackingOptions): Tracking {
  const trackers = createTrackers(options);
  const unsynced = new Set<Kind>(options.kinds);
  const resets = createResetTracker();
  let isAnnounced = false;

  const announce = () => {
    if (isAnnounced || unsynced.size > 0 || (options.awaitsPodCIDR && !trackers.node.hasPodCIDR())) return;
    isAnnounced = true;
    options.onChange();
  };

  return {
    ...trackers,
    objects: () => objectsOf(trackers),
    ready: () => unsynced.size === 0,
    set(object) {
      resets.confirm(refOf(object));
      setObject(trackers, options.externalIPs === false ? withoutExternalIPs(object) : object);
      if (hasChanges(trackers)) announce();
    },
    delete(ref) {
      resets.confirm(ref);
      deleteObject(trackers, ref);
      if (hasChanges(trackers)) announce();
    },
    reset(kind) {
      resets.start(kind, refsOfKind(trackers, kind));
    },
    synced(kind) {
      for (const ref of resets.finish(kind)) deleteObject(trackers, ref);
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (isLast) options.onSynced?.();
      if (isLast || hasChanges(trackers)) announce();
    },
    problems: options.onProblems,
    take() {
      isAnnounced = false;
      const { services, endpoints, node, serviceCIDRs, labels } = trackers;
      return {
        services: services.take(),
        endpoints: { IPv4: endpoints.IPv4.take(), IPv6: endpoints.IPv6.take() },
        node: node.take(),
        serviceRanges: serviceCIDRs.take(),
        labels: labels.take(),
      };
    },
  };
}

interface Trackers extends Pick<Tracking, "services" | "endpoints" | "node" | "serviceCIDRs" | "labels"> {
  readonly addresses: EndpointAddresses;
}

function createTrackers({ nodeName, bindAddress, clock, onProblems }: TrackingOptions): Trackers {
  const startedAtMs = clock.now();
  return {
    services: createServiceChangeTracker(),
    endpoints: {
      IPv4: createEndpointsChangeTracker({ startedAtMs }),
      IPv6: createEndpointsChangeTracker({ startedAtMs }),
    },
    node: createNodeTracker({ nodeName, bindAddress }),
    serviceCIDRs: createServiceCIDRTracker(),
    labels: createLabelTracker(),
    addresses: createEndpointAddresses(onProblems),
  };
}

function hasChanges({ services, endpoints, node, serviceCIDRs, labels }: Trackers): boolean {
  return services.pending() > 0 || node.pending() || serviceCIDRs.pending() || labels.pending() ||
    FAMILIES.some((family) => endpoints[family].pending() > 0);
}

function* objectsOf({ services, endpoints, node, serviceCIDRs, labels }: Trackers): Generator<ClusterObject> {
  yield* node.values();
  yield* serviceCIDRs.values();
  yield* labels.values();
  yield* services.values();
  for (const family of FAMILIES) yield* endpoints[family].values();
}

function refsOfKind({ services, endpoints, node, serviceCIDRs, labels }: Trackers, kind: Kind): ObjectRef[] {
  if (kind === "Node" || kind === "ServiceCIDR") {
    return Array.from((kind === "Node" ? node : serviceCIDRs).keys(), (name) => ({ kind, namespace: "", name }));
  }
  if (kind === "NodeLabels" || kind === "PodLabels") {
    return Array.from(labels.keys(kind), (key) => ({ kind, ...splitServiceKey(key) }));
  }
  const keys = kind === "Service" ? services.keys() : FAMILIES.flatMap((family) => [...endpoints[family].keys()]);
  return Array.from(keys, (key) => ({ kind, ...splitServiceKey(key) }));
}

function setObject(
  { services, endpoints, node, serviceCIDRs, labels, addresses }: Trackers,
  object: ClusterObject,
): void {
  if (object.kind === "Service") services.update(object);
  else if (object.kind === "Node") node.update(object);
  else if (object.kind === "ServiceCIDR") serviceCIDRs.update(object);
  else if (object.kind !== "EndpointSlice") labels.update(object);
  else {
    endpoints[otherFamily(object.family)].delete(object.namespace, object.name);
    endpoints[object.family].update(addresses.admit(object));
  }
}

function deleteObject(
  { services, endpoints, node, serviceCIDRs, labels, addresses }: Trackers,
  { kind, namespace, name }: ObjectRef,
): void {
  if (kind === "Service") services.delete(serviceKey(namespace, name));
  else if (kind === "Node") node.delete(name);
  else if (kind === "ServiceCIDR") serviceCIDRs.delete(name);
  else if (kind !== "EndpointSlice") labels.delete(kind, namespace, name);
  else {
    addresses.forget(namespace, name);
    for (const family of FAMILIES) endpoints[family].delete(namespace, name);
  }
}

function withoutExternalIPs(object: ClusterObject): ClusterObject {
  return object.kind !== "Service" || object.externalIPs.length === 0 ? object : { ...object, externalIPs: [] };
}

/** Filters endpoints by address. */
interface EndpointAddresses {
  /**
   * Removes endpoints with unspecified, loopback and link-local addresses, and reports them. The API server refuses them
   * (Kubernetes' ValidateEndpointIP), but other sources may not. Through them, a relay or a local client could reach programs
   * that listen for this node alone.
   */
  admit(slice: EndpointSlice): EndpointSlice;
  /** Forgets the problems of a slice. */
  forget(namespace: string, name: string): void;
}

/** Creates a filter that has seen no slices. */
function createEndpointAddresses(onProblems: ReportProblems): EndpointAddresses {
  const problems = createObjectProblems(onProblems, "endpoint addresses of");
  return {
    admit(slice) {
      const key = serviceKey(slice.namespace, slice.name);
      const refused = slice.endpoints.filter(({ address }) => specialRange(address) !== undefined);
      if (refused.length === 0) {
        problems.delete(key);
        return slice;
      }
      const { address } = refused[0]!;
      const others = refused.length === 1 ? "" : `, and ${refused.length - 1} more like it`;
      problems.set(key, `EndpointSlice ${key}`, [
        `endpoint address ${address} is ${specialRange(address)}${others}; ignored`,
      ]);
      return { ...slice, endpoints: slice.endpoints.filter((one) => !refused.includes(one)) };
    },
    forget: (namespace, name) => problems.delete(serviceKey(namespace, name)),
  };
}

/** The changed endpoints of one family. */
interface EndpointChanges {
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
interface EndpointsChangeTrackerOptions {
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
      // A deleted slice carries the time of its last update, not of its deletion.
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
