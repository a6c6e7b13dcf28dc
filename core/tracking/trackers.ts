/** Combines the trackers behind one sink and collects changes until the planner takes them. */
import type { ReportProblems } from "../problems/mod.ts";
import { type Clock, FAMILIES, type Family, otherFamily } from "../../platform/mod.ts";
import { type ClusterObject, type Kind, type ObjectRef, refOf, type SourceSink } from "../objects/mod.ts";
import {
  createEndpointsChangeTracker,
  type EndpointChanges,
  type EndpointsChangeTracker,
} from "./endpoints_change_tracker.ts";
import { createLabelTracker, type LabelTracker } from "./label_tracker.ts";
import { createNodeTracker, type NodeChange, type NodeTracker } from "./node_tracker.ts";
import { createServiceChangeTracker, type ServiceChangeTracker } from "./service_change_tracker.ts";
import { createServiceCIDRTracker, type ServiceCIDRTracker } from "./service_cidr_tracker.ts";
import { createResetTracker } from "./reset_tracker.ts";
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
   * Called when there are changes to take: once when every kind is synced (and a pod CIDR is known, if one is awaited), even
   * if the cluster is empty, and then with the first change after each `take`. If that change is undone before the `take`,
   * there is nothing to take.
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

type Trackers = Pick<Tracking, "services" | "endpoints" | "node" | "serviceCIDRs" | "labels">;

function createTrackers({ nodeName, bindAddress, clock }: TrackingOptions): Trackers {
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

function setObject({ services, endpoints, node, serviceCIDRs, labels }: Trackers, object: ClusterObject): void {
  if (object.kind === "Service") services.update(object);
  else if (object.kind === "Node") node.update(object);
  else if (object.kind === "ServiceCIDR") serviceCIDRs.update(object);
  else if (object.kind !== "EndpointSlice") labels.update(object);
  else {
    endpoints[otherFamily(object.family)].delete(object.namespace, object.name);
    endpoints[object.family].update(object);
  }
}

function deleteObject(
  { services, endpoints, node, serviceCIDRs, labels }: Trackers,
  { kind, namespace, name }: ObjectRef,
): void {
  if (kind === "Service") services.delete(serviceKey(namespace, name));
  else if (kind === "Node") node.delete(name);
  else if (kind === "ServiceCIDR") serviceCIDRs.delete(name);
  else if (kind !== "EndpointSlice") labels.delete(kind, namespace, name);
  else for (const family of FAMILIES) endpoints[family].delete(namespace, name);
}

function withoutExternalIPs(object: ClusterObject): ClusterObject {
  return object.kind !== "Service" || object.externalIPs.length === 0 ? object : { ...object, externalIPs: [] };
}
