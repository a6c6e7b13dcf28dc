/** A service of Sluice's own: planned like any other, but not part of the cluster. */
import { splitHostPort } from "../../platform/mod.ts";
import type { Service } from "../objects/mod.ts";
import { type ServiceEndpoint, type ServiceKey, serviceKey } from "../tracking/mod.ts";

/** The addresses of a family's internal service. */
export interface InternalService {
  /** The canonical address that the rules translate. */
  readonly address: string;
  /** The endpoint on this node, as `address:port`. */
  readonly target: string;
}

/** The TCP port of the internal service. */
export const INTERNAL_PORT = 10260;

// No namespace of a cluster contains a dot, so that no Service of a user has this key.
const NAMESPACE = "sluice.internal", NAME = "probe";

/** The key of the internal service. */
export const INTERNAL_SERVICE: ServiceKey = serviceKey(NAMESPACE, NAME);

/** The internal service as a Service of type ClusterIP. */
export function internalServiceObject({ address }: InternalService): Service {
  return {
    kind: "Service",
    namespace: NAMESPACE,
    name: NAME,
    type: "ClusterIP",
    clusterIPs: [address],
    externalIPs: [],
    loadBalancerIPs: [],
    ports: [{ name: "", protocol: "tcp", port: INTERNAL_PORT, nodePort: 0 }],
    affinitySeconds: 0,
    sourceRanges: [],
    internalPolicyLocal: false,
    externalPolicyLocal: false,
    healthCheckNodePort: 0,
    ignored: false,
  };
}

/** Its endpoint on the node of this name. */
export function internalEndpoint({ target }: InternalService, nodeName: string): ServiceEndpoint {
  const { address } = splitHostPort(target);
  return {
    target,
    endpoint: {
      address,
      ready: true,
      serving: true,
      terminating: false,
      nodeName,
      zone: "",
      zoneHints: undefined,
      nodeHints: undefined,
    },
  };
}
