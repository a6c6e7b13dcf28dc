import { type ServiceChangeTracker, type ServiceKey, splitServiceKey } from "../tracking/mod.ts";

/** With no more services than these, all are in effect about as soon as a few would be. */
const FEW_SERVICES = 500;
/** Anybody may label a Service, so that no more than these come first. */
const MOST_FIRST = 100;

const API: ServiceKey = "default/kubernetes";
const DNS_NAMES: readonly string[] = ["kube-dns", "coredns"];
const SYSTEM_NAMESPACE = "kube-system";

/**
 * The services that the start of a node waits for, where there are many others: the API and cluster DNS, by its names or
 * by its label. None where there are few services.
 */
export function servicesFirst(services: Pick<ServiceChangeTracker, "keys" | "get">): readonly ServiceKey[] {
  const system: ServiceKey[] = [], others: ServiceKey[] = [];
  let count = 0;
  for (const key of services.keys()) {
    count++;
    const { namespace, name } = splitServiceKey(key);
    if (key !== API && !DNS_NAMES.includes(name) && !services.get(key)?.isClusterDNS) continue;
    (key === API || namespace === SYSTEM_NAMESPACE ? system : others).push(key);
  }
  return count > FEW_SERVICES ? [...system, ...others].slice(0, MOST_FIRST) : [];
}
