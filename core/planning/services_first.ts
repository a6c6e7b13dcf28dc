import { type ServiceKey, splitServiceKey, type Tracking } from "../tracking/mod.ts";

/** Up to this number of services, writing all takes hardly longer than writing a few. */
const FEW_SERVICES = 500;
/** Limits the services that come first, since every user may label a Service. */
const MOST_FIRST = 100;

const API: ServiceKey = "default/kubernetes";
const DNS_NAMES: readonly string[] = ["kube-dns", "coredns"];
const SYSTEM_NAMESPACE = "kube-system";

/** The API and cluster DNS, for which other programs on a starting node wait; empty if there are few services. */
export function servicesFirst(services: Pick<Tracking["services"], "keys" | "get">): readonly ServiceKey[] {
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
