/** A service of Sluice's own: served like any other, but not part of the cluster. */
import { INTERNAL_PORT, type ServicePort } from "../model/mod.ts";
import type { ServiceKey } from "../tracking/mod.ts";

/** The addresses of a family's internal service. */
export interface InternalService {
  /** The canonical address that the rules translate. */
  readonly address: string;
  /** The endpoint on this node, as `address:port`. */
  readonly target: string;
}

/** The key of the internal service. No namespace of a cluster contains a dot, so that no Service of a user has this key. */
export const INTERNAL_SERVICE: ServiceKey = "sluice.internal/probe";

/** The service port of the internal service, for all traffic of this node. */
export function internalPort({ address, target }: InternalService): ServicePort {
  return {
    name: INTERNAL_SERVICE,
    protocol: "tcp",
    clusterIP: address,
    port: INTERNAL_PORT,
    externalIPs: [],
    loadBalancerIPs: [],
    nodePort: 0,
    healthCheckNodePort: 0,
    internal: "cluster",
    external: "cluster",
    clusterEndpoints: [target],
    localEndpoints: [],
    endpointsOnThisNode: [target],
    lingeringEndpoints: [],
    affinitySeconds: 0,
    loadBalancerSources: undefined,
  };
}
