import fc from "fast-check";
import type { ServicePort } from "../../core/model/mod.ts";
import { fakeServicePort, fakeSources } from "../fakes/service_port.ts";

const ENDPOINTS = ["10.244.1.1:80", "10.244.1.2:80", "10.244.2.3:81"];
const lists = fc.subarray(ENDPOINTS);
const policies = fc.constantFrom("cluster" as const, "local" as const);

/**
 * Service ports as the planner returns them: traffic goes only to existing endpoints, and no two claim the same frontend,
 * although neighbours share an address. There are more of them than fit into one chain of iptables' dispatch, at adjacent
 * and distant addresses.
 */
export const plannedPorts: fc.Arbitrary<ServicePort> = fc.record({
  index: fc.nat(90),
  internal: policies,
  external: policies,
  clusterEndpoints: lists,
  localEndpoints: lists,
  endpointsOnThisNode: lists,
  hasNodePort: fc.boolean(),
  nodePortPrefixes: fc.constantFrom(undefined, undefined, [], ["192.168.1.0/24", "192.168.1.1/32"], ["192.168.2.0/24"]),
  hasExternalIP: fc.boolean(),
  hasBalancer: fc.boolean(),
  hasHealthCheck: fc.boolean(),
  affinitySeconds: fc.constantFrom(0, 0, 60, 90),
  loadBalancerSources: fc.constantFrom([], ["10.0.0.0/8", "10.244.0.0/16"], ["192.168.1.0/24"], ["0.0.0.0/0"]).map((
    ranges,
  ) => fakeSources(ranges)),
}).map(({ index, internal, external, hasNodePort, hasExternalIP, hasBalancer, hasHealthCheck, ...changes }) => {
  const { clusterEndpoints, localEndpoints } = changes;
  const verdict = (policy: "cluster" | "local") =>
    policy === "local" ? localEndpoints.length > 0 ? "local" : "drop" : clusterEndpoints.length > 0 ? policy : "reject";
  return fakeServicePort(`default/s${index}:p`, {
    ...changes,
    internal: verdict(internal),
    external: clusterEndpoints.length > 0 ? verdict(external) : "reject",
    protocol: index % 4 === 0 ? "udp" : "tcp",
    clusterIP: index % 3 === 0 ? `10.${index}.7.${index}` : `10.96.0.${index >> 1}`,
    port: 80 + index,
    nodePort: hasNodePort ? 30000 + index : 0,
    externalIPs: hasExternalIP ? ["192.0.2.1"] : [],
    loadBalancerIPs: hasBalancer ? [`192.0.2.${2 + index}`] : [],
    healthCheckNodePort: hasHealthCheck && hasBalancer ? 32000 + index : 0,
  });
});
