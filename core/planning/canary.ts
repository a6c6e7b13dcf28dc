/** The canary's service: planned like any other, but not part of the cluster. */
import { splitHostPort } from "../../platform/mod.ts";
import type { Service } from "../objects/mod.ts";
import { type ServiceEndpoint, type ServiceKey, serviceKey } from "../tracking/mod.ts";

/** The addresses of a family's canary. */
export interface CanaryPlan {
  /** The canonical address that the rules translate. */
  readonly address: string;
  /** The responder on this node, as `address:port`. */
  readonly target: string;
}

/** The TCP port of the canary at its address. */
export const CANARY_PORT = 10260;

// No namespace of a cluster contains a dot, so that no Service of a user has this key.
const NAMESPACE = "sluice.internal", NAME = "canary";

/** The key of the canary's service. */
export const CANARY_KEY: ServiceKey = serviceKey(NAMESPACE, NAME);

/** The canary as a Service of type ClusterIP. */
export function canaryService({ address }: CanaryPlan): Service {
  return {
    kind: "Service",
    namespace: NAMESPACE,
    name: NAME,
    type: "ClusterIP",
    clusterIPs: [address],
    externalIPs: [],
    loadBalancerIPs: [],
    ports: [{ name: "", protocol: "tcp", port: CANARY_PORT, nodePort: 0 }],
    affinitySeconds: 0,
    sourceRanges: [],
    internalPolicyLocal: false,
    externalPolicyLocal: false,
    healthCheckNodePort: 0,
    ignored: false,
  };
}

/** The canary's responder as an endpoint on the node of this name. */
export function canaryEndpoint({ target }: CanaryPlan, nodeName: string): ServiceEndpoint {
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
