import type { Service, ServiceCIDR } from "../objects/mod.ts";
import { type Family, familyOf, sameData } from "../../platform/mod.ts";
import { createChangingMap } from "./changing_map.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** Tracks the Services to serve and their changes (kube-proxy's ServiceChangeTracker). */
export interface ServiceChangeTracker {
  /** Adds or updates a service. One that is ignored, headless or an ExternalName counts as deleted. */
  update(service: Service): void;
  delete(key: ServiceKey): void;
  get(key: ServiceKey): Service | undefined;
  keys(): Iterable<ServiceKey>;
  /** The Services to serve; the iteration may continue after changes. */
  values(): Iterable<Service>;
  /** The number of services changed since the last `take`. */
  pending(): number;
  /** The number of updates so far, including those that changed nothing. */
  total(): number;
  /** The services changed since the last `take`. */
  take(): ReadonlySet<ServiceKey>;
}

/** A tracker without services. */
export function createServiceChangeTracker(): ServiceChangeTracker {
  const services = createChangingMap<Service>(sameData);
  let total = 0;
  return {
    update(service) {
      total++;
      services.put(serviceKey(service.namespace, service.name), isServed(service) ? service : undefined);
    },
    delete(key) {
      total++;
      services.put(key, undefined);
    },
    get: services.get,
    keys: services.keys,
    values: services.values,
    pending: services.pending,
    total: () => total,
    take: () => new Set(services.take().keys()),
  };
}

function isServed(service: Service): boolean {
  return !service.ignored && service.type !== "ExternalName" && service.clusterIPs.length > 0;
}

/** The ranges from which cluster IPs are allocated, by family; canonical and in a stable order. */
export type ServiceRanges = Readonly<Record<Family, readonly string[]>>;

/** Tracks the ranges of all ServiceCIDRs, as kube-proxy's ServiceCIDRConfig does. */
export interface ServiceCIDRTracker {
  update(object: ServiceCIDR): void;
  delete(name: string): void;
  /** The names of the ServiceCIDRs. */
  keys(): Iterable<string>;
  /** The ServiceCIDRs; the iteration may continue after changes. */
  values(): Iterable<ServiceCIDR>;
  ranges(): ServiceRanges;
  pending(): boolean;
  /** Whether the ranges changed since the last `take`. */
  take(): boolean;
}

/** A tracker without ServiceCIDRs. */
export function createServiceCIDRTracker(): ServiceCIDRTracker {
  const objects = new Map<string, ServiceCIDR>();
  let taken: ServiceRanges = { IPv4: [], IPv6: [] };
  let ranges = taken;

  const combine = () => {
    const all = [...new Set([...objects.values()].flatMap(({ cidrs }) => cidrs))].sort();
    const combined = {
      IPv4: all.filter((prefix) => familyOf(prefix) === "IPv4"),
      IPv6: all.filter((prefix) => familyOf(prefix) === "IPv6"),
    };
    ranges = sameData(combined, taken) ? taken : combined;
  };

  return {
    update(object) {
      objects.set(object.name, object);
      combine();
    },
    delete(name) {
      if (objects.delete(name)) combine();
    },
    keys: () => objects.keys(),
    values: () => objects.values(),
    ranges: () => ranges,
    pending: () => ranges !== taken,
    take() {
      const changed = ranges !== taken;
      taken = ranges;
      return changed;
    },
  };
}
