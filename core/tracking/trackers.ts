/** Combines the trackers behind one sink and collects changes until the planner takes them. */
import { type Clock, type Family, familyOf, sameData, specialRange } from "../../platform/mod.ts";
import {
  type ClusterObject,
  type EndpointSlice,
  type Kind,
  type NodeLabels,
  type ObjectRef,
  type PodLabels,
  refOf,
  type Service,
  type ServiceCIDR,
  type SourceSink,
} from "../objects/mod.ts";
import { createObjectProblems, type ReportProblems } from "../problems/mod.ts";
import { type ChangingMap, createChangingMap } from "./changing_map.ts";
import { createEndpointsTracker, type EndpointChanges, type EndpointsTracker } from "./endpoints_tracker.ts";
import { createNodeTracker, type NodeChange, type NodeTracker } from "./node_tracker.ts";
import { createResetTracker } from "./reset_tracker.ts";
import { type ServiceKey, serviceKey, splitServiceKey } from "./service_key.ts";

/** The changes between two calls of `take`. */
export interface TrackedChanges {
  readonly services: ReadonlySet<ServiceKey>;
  /** Those of `services` that existed before, with another selector. */
  readonly reselected: ReadonlySet<ServiceKey>;
  readonly endpoints: Readonly<Record<Family, EndpointChanges>>;
  readonly node: NodeChange | undefined;
  /** Whether the ranges of cluster IPs changed. */
  readonly serviceRanges: boolean;
  /** Whether labels that weights may refer to changed. */
  readonly labels: boolean;
}

/** The trackers of all kinds of objects, fed by the sources. */
export interface Tracking extends SourceSink {
  /** The Services to serve, by key. */
  readonly services: ChangingMap<Service>;
  readonly endpoints: Readonly<Record<Family, EndpointsTracker>>;
  readonly node: NodeTracker;
  readonly serviceCIDRs: { ranges(): ServiceRanges };
  readonly labels: EndpointLabels;
  /** All objects, as tracked: Services that are not served are left out. The iteration may continue after changes. */
  objects(): Iterable<ClusterObject>;
  /** Whether every kind has been synced; before that, the state is incomplete. */
  ready(): boolean;
  /** The changes since the last call. */
  take(): TrackedChanges;
}

interface TrackingOptions {
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

/** The ranges from which cluster IPs are allocated, by family; canonical and in a stable order. */
export type ServiceRanges = Readonly<Record<Family, readonly string[]>>;

/** The labels that weights refer to; undefined for an object without any of them. */
export interface EndpointLabels {
  ofNode(name: string): Readonly<Record<string, string>> | undefined;
  ofPod(namespace: string, name: string): Readonly<Record<string, string>> | undefined;
}

/** Tracks the objects of one kind by key: `namespace/name`, `/name` if they have no namespace. */
interface Tracker {
  set(key: string, object: ClusterObject): void;
  delete(key: string): void;
  keys(): Iterable<string>;
  values(): Iterable<ClusterObject>;
  pending(): number | boolean;
}

/** Trackers without objects. */
export function createTracking(options: TrackingOptions): Tracking {
  const startedAtMs = options.clock.now();
  const services = createServiceTracker();
  const endpoints = { IPv4: createEndpointsTracker(startedAtMs), IPv6: createEndpointsTracker(startedAtMs) };
  const node = createNodeTracker(options);
  const serviceCIDRs = createServiceCIDRTracker();
  const nodeLabels = createChangingMap<NodeLabels>(sameData), podLabels = createChangingMap<PodLabels>(sameData);
  const trackers: Readonly<Record<Kind, Tracker>> = {
    Node: node,
    ServiceCIDR: serviceCIDRs,
    NodeLabels: nodeLabels,
    PodLabels: podLabels,
    Service: services,
    EndpointSlice: ofBothFamilies(endpoints, options.onProblems),
  };
  const all = Object.values(trackers);
  const unsynced = new Set<Kind>(options.kinds);
  const resets = createResetTracker();
  let isAnnounced = false;

  const announce = (isFirst = false) => {
    if (isAnnounced || unsynced.size > 0 || (options.awaitsPodCIDR && !node.hasPodCIDR())) return;
    if (!isFirst && !all.some((tracker) => tracker.pending())) return;
    isAnnounced = true;
    options.onChange();
  };

  return {
    services,
    endpoints,
    node,
    serviceCIDRs,
    labels: {
      ofNode: (name) => nodeLabels.get(serviceKey("", name))?.labels,
      ofPod: (namespace, name) => podLabels.get(serviceKey(namespace, name))?.labels,
    },
    *objects() {
      for (const tracker of all) yield* tracker.values();
    },
    ready: () => unsynced.size === 0,
    set(object) {
      const ref = refOf(object);
      resets.confirm(ref);
      trackers[ref.kind].set(keyOf(ref), options.externalIPs === false ? withoutExternalIPs(object) : object);
      announce();
    },
    delete(ref) {
      resets.confirm(ref);
      trackers[ref.kind].delete(keyOf(ref));
      announce();
    },
    reset(kind) {
      resets.start(kind, Array.from(trackers[kind].keys(), (key) => ({ kind, ...splitServiceKey(key) })));
    },
    synced(kind) {
      for (const ref of resets.finish(kind)) trackers[kind].delete(keyOf(ref));
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (isLast) options.onSynced?.();
      announce(isLast);
    },
    problems: options.onProblems,
    take() {
      isAnnounced = false;
      const earlier = services.take(), reselected = new Set<ServiceKey>();
      for (const [key, before] of earlier) {
        const after = services.get(key);
        if (before && after && before.selector !== after.selector) reselected.add(key);
      }
      return {
        services: new Set(earlier.keys()),
        reselected,
        endpoints: { IPv4: endpoints.IPv4.take(), IPv6: endpoints.IPv6.take() },
        node: node.take(),
        serviceRanges: serviceCIDRs.take(),
        labels: nodeLabels.take().size + podLabels.take().size > 0,
      };
    },
  };
}

function keyOf({ namespace, name }: ObjectRef): string {
  return serviceKey(namespace, name);
}

function withoutExternalIPs(object: ClusterObject): ClusterObject {
  return object.kind !== "Service" || object.externalIPs.length === 0 ? object : { ...object, externalIPs: [] };
}

/** Tracks the Services to serve. One that is ignored, headless or an ExternalName counts as deleted. */
export function createServiceTracker(): ChangingMap<Service> {
  const services = createChangingMap<Service>(sameData);
  return {
    ...services,
    set(key, service) {
      const { ignored, type, clusterIPs } = service;
      if (!ignored && type !== "ExternalName" && clusterIPs.length > 0) return services.set(key, service);
      services.delete(key);
      return false;
    },
  };
}

/** Tracks the ranges of all ServiceCIDRs, as kube-proxy's ServiceCIDRConfig does. Only a difference of the ranges is a change. */
function createServiceCIDRTracker() {
  const objects = createChangingMap<ServiceCIDR>(sameData);
  const ranges = (): ServiceRanges => {
    const prefixes = [...new Set([...objects.values()].flatMap(({ cidrs }) => cidrs))].sort();
    const ofFamily = (family: Family) => prefixes.filter((prefix) => familyOf(prefix) === family);
    return { IPv4: ofFamily("IPv4"), IPv6: ofFamily("IPv6") };
  };
  let taken = ranges();
  const pending = () => objects.pending() > 0 && !sameData(ranges(), taken);
  return {
    ...objects,
    ranges,
    pending,
    take() {
      const hasChanged = pending();
      objects.take();
      if (hasChanged) taken = ranges();
      return hasChanged;
    },
  };
}

/**
 * Tracks the slices of both families. Removes endpoints with unspecified, loopback and link-local addresses, and reports
 * them. The API server refuses them (Kubernetes' ValidateEndpointIP), but other sources may not. Through them, a relay or a
 * local client could reach programs that listen for this node alone.
 */
function ofBothFamilies({ IPv4, IPv6 }: Tracking["endpoints"], onProblems: ReportProblems): Tracker {
  const problems = createObjectProblems(onProblems, "endpoint addresses of");
  const admitted = (key: string, slice: EndpointSlice): EndpointSlice => {
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
  };
  return {
    set(key, slice: EndpointSlice) {
      (slice.family === "IPv4" ? IPv6 : IPv4).delete(key);
      (slice.family === "IPv4" ? IPv4 : IPv6).set(key, admitted(key, slice));
    },
    delete(key) {
      problems.delete(key);
      IPv4.delete(key);
      IPv6.delete(key);
    },
    keys: () => [...IPv4.keys(), ...IPv6.keys()],
    *values() {
      yield* IPv4.values();
      yield* IPv6.values();
    },
    pending: () => IPv4.pending() + IPv6.pending(),
  };
}
