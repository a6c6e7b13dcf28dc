/**
 * What is known of the cluster and of this node, kept from what the sources say, and what of it has changed: changes
 * gather here, those that are undone disappear, until they are taken to be planned.
 */
import { type Clock, FAMILIES, type Family, otherFamily } from "../../platform/mod.ts";
import { type ClusterObject, type Kind, type ObjectRef, refOf, type Service, type SourceSink } from "../objects/mod.ts";
import {
  createEndpointsChangeTracker,
  type EndpointChanges,
  type EndpointsChangeTracker,
} from "./endpoints_change_tracker.ts";
import { createNodeTracker, type NodeChange, type NodeTracker } from "./node_tracker.ts";
import { createServiceChangeTracker, type ServiceChangeTracker } from "./service_change_tracker.ts";
import { createServiceCIDRTracker, type ServiceCIDRTracker } from "./service_cidr_tracker.ts";
import { createConfirmation } from "./confirmation.ts";
import { type ServiceKey, serviceKey, splitServiceKey } from "./service_key.ts";

/** What changed between two calls of `take`. */
export interface TrackedChanges {
  readonly services: ReadonlySet<ServiceKey>;
  readonly endpoints: Readonly<Record<Family, EndpointChanges>>;
  readonly node: NodeChange | undefined;
  /** Whether the ranges that cluster IPs are taken from changed. */
  readonly serviceRanges: boolean;
}

/** The trackers behind the sink that the sources talk to. */
export interface Tracking extends SourceSink {
  readonly services: ServiceChangeTracker;
  readonly endpoints: Readonly<Record<Family, EndpointsChangeTracker>>;
  readonly node: NodeTracker;
  readonly serviceCIDRs: ServiceCIDRTracker;
  /** Whether every kind was synced once: before that, what is known must not be taken for all there is. */
  ready(): boolean;
  /** What changed since the last call. */
  take(): TrackedChanges;
}

/** What the tracking needs to know, and whom it tells. */
export interface TrackingOptions {
  /** What the source will tell of; other kinds need not be synced. */
  readonly kinds: readonly Kind[];
  readonly nodeName: string;
  /** kube-proxy's bindAddress. */
  readonly bindAddress: string;
  /** Whether nothing may be taken before a pod CIDR of this node is known. */
  readonly awaitsPodCIDR?: boolean;
  /** Whether external IPs of services are served; true by default. */
  readonly externalIPs?: boolean;
  readonly clock: Clock;
  /** Every kind was synced once. Called before `onChange`. */
  readonly onSynced?: () => void;
  /**
   * There is something to take: called once when every kind is synced (and a pod CIDR is known, where one is awaited), even if there is nothing at all, and later with
   * the first change after each `take`. A change that is undone afterwards leaves nothing to take.
   */
  readonly onChange: () => void;
  /** Something that a source read cannot be used; see `SourceSink.problem`. */
  readonly onProblem: (where: string, message: string) => void;
}

/** A tracking that knows nothing yet. */
export function createTracking(options: TrackingOptions): Tracking {
  const { nodeName, bindAddress, externalIPs = true } = options;
  const startedAtMs = options.clock.now();
  const services = createServiceChangeTracker();
  const endpoints = {
    IPv4: createEndpointsChangeTracker({ startedAtMs }),
    IPv6: createEndpointsChangeTracker({ startedAtMs }),
  };
  const node = createNodeTracker({ nodeName, bindAddress });

  const serviceCIDRs = createServiceCIDRTracker();

  const unsynced = new Set<Kind>(options.kinds);
  const confirmation = createConfirmation();
  let isAnnounced = false;

  const isPending = () =>
    services.pending() > 0 || node.pending() || serviceCIDRs.pending() ||
    FAMILIES.some((family) => endpoints[family].pending() > 0);

  const announce = () => {
    if (isAnnounced || unsynced.size > 0 || (options.awaitsPodCIDR && !node.hasPodCIDR())) return;
    isAnnounced = true;
    options.onChange();
  };

  const known = (kind: Kind): ObjectRef[] => {
    if (kind === "Node" || kind === "ServiceCIDR") {
      return Array.from((kind === "Node" ? node : serviceCIDRs).keys(), (name) => ({ kind, namespace: "", name }));
    }
    const keys = kind === "Service" ? services.keys() : FAMILIES.flatMap((family) => [...endpoints[family].keys()]);
    return Array.from(keys, (key) => ({ kind, ...splitServiceKey(key) }));
  };

  const apply = (object: ClusterObject) => {
    if (object.kind === "Service") services.update(externalIPs ? object : withoutExternalIPs(object));
    else if (object.kind === "Node") node.update(object);
    else if (object.kind === "ServiceCIDR") serviceCIDRs.update(object);
    else {
      endpoints[otherFamily(object.family)].delete(object.namespace, object.name);
      endpoints[object.family].update(object);
    }
  };

  const remove = ({ kind, namespace, name }: ObjectRef) => {
    if (kind === "Service") services.delete(serviceKey(namespace, name));
    else if (kind === "Node") node.delete(name);
    else if (kind === "ServiceCIDR") serviceCIDRs.delete(name);
    else for (const family of FAMILIES) endpoints[family].delete(namespace, name);
  };

  return {
    services,
    endpoints,
    node,
    serviceCIDRs,
    ready: () => unsynced.size === 0,
    set(object) {
      confirmation.confirm(refOf(object));
      apply(object);
      if (isPending()) announce();
    },
    delete(ref) {
      confirmation.confirm(ref);
      remove(ref);
      if (isPending()) announce();
    },
    reset(kind) {
      confirmation.start(kind, known(kind));
    },
    synced(kind) {
      for (const ref of confirmation.finish(kind)) remove(ref);
      const isLast = unsynced.delete(kind) && unsynced.size === 0;
      if (isLast) options.onSynced?.();
      if (isLast || isPending()) announce();
    },
    problem: options.onProblem,
    take() {
      isAnnounced = false;
      return {
        services: services.take(),
        endpoints: { IPv4: endpoints.IPv4.take(), IPv6: endpoints.IPv6.take() },
        node: node.take(),
        serviceRanges: serviceCIDRs.take(),
      };
    },
  };
}

function withoutExternalIPs(service: Service): Service {
  return service.externalIPs.length === 0 ? service : { ...service, externalIPs: [] };
}
