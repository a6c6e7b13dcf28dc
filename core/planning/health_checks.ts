import { FAMILIES, type Family, familyOf, sameData } from "../../platform/mod.ts";
import type { Service } from "../objects/mod.ts";
import { type ServiceKey, serviceKey, type TrackedChanges, type Tracking } from "../tracking/mod.ts";
import { healthCheckNodePort } from "./service_port.ts";

/** A port on which a load balancer checks whether this node has endpoints of a service. */
export interface HealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** The addresses of ready endpoints here, by family of the service, as in kube-proxy's proxier (KEP-1669). */
  readonly localReadyEndpoints: Readonly<Partial<Record<Family, number>>>;
}

/** The changes of health checks. */
export interface HealthCheckChanges {
  readonly set: readonly HealthCheck[];
  /** The services that no longer have a health check. */
  readonly deleted: readonly ServiceKey[];
}

/** Creates a function that updates the plan of the health checks of load balancers and returns its changes. */
export function createHealthCheckPlanner(
  nodeName: string,
  tracking: Tracking,
): (changes: TrackedChanges) => HealthCheckChanges {
  const planned = new Map<ServiceKey, HealthCheck>();

  const healthCheckOf = (key: ServiceKey): HealthCheck | undefined => {
    const service = tracking.services.get(key);
    const port = service === undefined ? 0 : healthCheckNodePort(service);
    return service === undefined || port === 0 ? undefined : {
      namespace: service.namespace,
      name: service.name,
      port,
      localReadyEndpoints: localReadyEndpoints(service),
    };
  };

  const localReadyEndpoints = ({ namespace, name, clusterIPs }: Service): HealthCheck["localReadyEndpoints"] => {
    const key = serviceKey(namespace, name);
    const counts: Partial<Record<Family, number>> = {};
    for (const family of FAMILIES) {
      if (!clusterIPs.some((address) => familyOf(address) === family)) continue;
      const addresses = new Set<string>();
      for (const slice of tracking.endpoints[family].slicesOf(key)) {
        if (slice.ports.length === 0) continue;
        for (const { ready, nodeName: home, address } of slice.endpoints) {
          if (ready && home === nodeName && nodeName !== "") addresses.add(address);
        }
      }
      counts[family] = addresses.size;
    }
    return counts;
  };

  return ({ services, endpoints }) => {
    const set: HealthCheck[] = [];
    const deleted: ServiceKey[] = [];
    for (const key of new Set([...services, ...endpoints.IPv4.services, ...endpoints.IPv6.services])) {
      const before = planned.get(key);
      const after = healthCheckOf(key);
      if (sameData(before, after)) continue;
      if (after === undefined) {
        planned.delete(key);
        deleted.push(key);
      } else {
        planned.set(key, after);
        set.push(after);
      }
    }
    return { set, deleted };
  };
}
