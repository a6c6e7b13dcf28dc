import type { EndpointUses } from "../core/failover/mod.ts";
import type { ServicePort } from "../core/model/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";

/** The planned service ports of each of these TCP endpoints, those that leave it out included. */
export function ownersOf(
  ports: Iterable<PlannedPort>,
  endpoints: ReadonlySet<string>,
): ReadonlyMap<string, readonly PlannedPort[]> {
  const owners = new Map<string, PlannedPort[]>();
  if (endpoints.size === 0) return owners;
  for (const owner of ports) {
    if (owner.wanted.protocol !== "tcp") continue;
    for (const endpoint of candidatesOf(owner.wanted)) {
      if (!endpoints.has(endpoint)) continue;
      const known = owners.get(endpoint);
      if (known) known.push(owner);
      else owners.set(endpoint, [owner]);
    }
  }
  return owners;
}

/** The uses of each of these TCP endpoints. */
export function usesOf(
  ports: Iterable<PlannedPort>,
  endpoints: ReadonlySet<string>,
): ReadonlyMap<string, EndpointUses> {
  const uses = new Map<string, EndpointUses>();
  for (const [endpoint, owners] of ownersOf(ports, endpoints)) {
    const siblings = new Set(owners.flatMap(({ wanted }) => [...candidatesOf(wanted)]));
    siblings.delete(endpoint);
    uses.set(endpoint, { servicePorts: owners.map(({ wanted }) => wanted.name), siblings: [...siblings] });
  }
  return uses;
}

/** The endpoints that a service port uses or leaves out because they are unreachable. */
function candidatesOf({ clusterEndpoints, localEndpoints, unreachableEndpoints = [] }: ServicePort): Set<string> {
  return new Set([...clusterEndpoints, ...localEndpoints, ...unreachableEndpoints]);
}
