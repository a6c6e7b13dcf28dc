import { NETWORK } from "../../../demo/lab.ts";
import type { ApiObject } from "../../fakes/api_server.ts";
import { node, service as serviceObject, slice as sliceObject } from "../cluster.ts";
import type { EndpointFields, ServiceFields, ServiceNumber } from "./history.ts";
import { addressOf } from "./reference.ts";

const RANGES = {
  all: undefined,
  outside: ["203.0.113.0/24", "2001:db8:113::/48"],
  none: ["198.18.0.0/15", "2001:db8:bad::/48"],
};

const CONDITIONS = {
  ready: { ready: true, serving: true, terminating: false },
  terminating: { ready: false, serving: true, terminating: true },
  down: { ready: false, serving: false, terminating: false },
};

/** The API object of a service. */
export function modelService(
  service: ServiceNumber,
  { type, internal, external, allows }: ServiceFields,
): ApiObject {
  const port = { name: "http", protocol: "TCP", port: 80, targetPort: NETWORK.podPort };
  const loadBalancer = type === "LoadBalancer";
  return {
    ...serviceObject(name(service), [addressOf(service, "cluster IP").address], {
      type,
      internalTrafficPolicy: internal,
      ports: [type === "ClusterIP" ? port : { ...port, nodePort: addressOf(service, "node port").port }],
      ...type !== "ClusterIP" && { externalTrafficPolicy: external },
      ...loadBalancer && external === "Local" && { healthCheckNodePort: 31_080 + service },
      ...loadBalancer &&
        { loadBalancerSourceRanges: RANGES[allows]?.filter((range) => range.includes(":") === (service === 2)) },
    }),
    status: {
      loadBalancer: loadBalancer ? { ingress: [{ ip: addressOf(service, "load balancer").address }] } : {},
    },
  };
}

/** The API object of one of a service's slices. */
export function modelSlice(
  service: ServiceNumber,
  number: number,
  endpointFields: readonly EndpointFields[],
): ApiObject {
  const object = sliceObject(name(service), service === 2 ? "IPv6" : "IPv4", endpointFields.map(({ pod }) => pod));
  const endpoints = object.endpoints as readonly Record<string, unknown>[];
  return {
    ...object,
    metadata: { ...object.metadata, name: `${name(service)}-${number}` },
    endpoints: endpoints.map((endpoint, i) => {
      const { state, hint } = endpointFields[i]!;
      return { ...endpoint, conditions: CONDITIONS[state], ...hint && { hints: { forZones: [{ name: hint }] } } };
    }),
  };
}

/** The API object of the node, with or without a zone. */
export function modelNode(zone: string | undefined): ApiObject {
  const object = node();
  const labels: Record<string, string> = zone === undefined ? {} : { "topology.kubernetes.io/zone": zone };
  return { ...object, metadata: { ...object.metadata, labels } };
}

function name(service: ServiceNumber): string {
  return `model-${service}`;
}
