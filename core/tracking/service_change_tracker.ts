import type { Service } from "../objects/mod.ts";
import { sameData } from "../../platform/mod.ts";
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
