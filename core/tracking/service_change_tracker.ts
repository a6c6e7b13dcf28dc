import type { Service } from "../objects/mod.ts";
import { sameData } from "../../platform/mod.ts";
import { createChangingMap } from "./changing_map.ts";
import { type ServiceKey, serviceKey } from "./service_key.ts";

/** The Services to be served, and which of them have changed (kube-proxy's ServiceChangeTracker). */
export interface ServiceChangeTracker {
  /** The service looks like this. One that is left alone, headless or an ExternalName counts as not there. */
  update(service: Service): void;
  delete(key: ServiceKey): void;
  get(key: ServiceKey): Service | undefined;
  keys(): Iterable<ServiceKey>;
  /** How many services differ from what they were at the last `take`. */
  pending(): number;
  /** How many updates there were so far, those that changed nothing among them. */
  total(): number;
  /** The services that differ from what they were at the last `take`. */
  take(): ReadonlySet<ServiceKey>;
}

/** A tracker that knows of no service. */
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
    pending: services.pending,
    total: () => total,
    take: () => new Set(services.take().keys()),
  };
}

function isServed(service: Service): boolean {
  return !service.leftAlone && service.type !== "ExternalName" && service.clusterIPs.length > 0;
}
