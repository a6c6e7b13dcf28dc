import {
  type FamilySettings,
  type LoadBalancerSources,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { loadBalancerSources } from "../../core/planning/service_port.ts";

/** A TCP service port with a cluster IP and one endpoint; `changes` override fields. */
export function fakeServicePort(name: string, changes: Partial<ServicePort> = {}): ServicePort {
  return {
    name,
    protocol: "tcp",
    clusterIP: "10.96.0.10",
    port: 80,
    externalIPs: [],
    loadBalancerIPs: [],
    nodePort: 0,
    healthCheckNodePort: 0,
    internal: "cluster",
    external: "cluster",
    clusterEndpoints: ["10.1.0.1:8080"],
    localEndpoints: [],
    endpointsOnThisNode: [],
    lingeringEndpoints: [],
    affinitySeconds: 0,
    loadBalancerSources: undefined,
    ...changes,
  };
}

/** The planned form of `loadBalancerSourceRanges` on a node with this address. */
export function fakeSources(ranges: readonly string[], nodeIP = "192.168.1.1"): LoadBalancerSources | undefined {
  return loadBalancerSources(ranges, nodeIP);
}

/** The default settings of a family; `changes` override fields. */
export function fakeSettings(changes: Partial<FamilySettings> = {}): FamilySettings {
  return {
    mode: "iptables",
    nodeIP: "192.168.1.1",
    localTraffic: { by: "none" },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    nodePortPrefixes: undefined,
    localhostNodePorts: true,
    conntrackTcpLiberal: false,
    serviceRanges: [],
    syncPeriodMs: 30_000,
    ...changes,
  };
}

/** Service ports by their keys, as the planner returns them. */
export function byKey(ports: Iterable<ServicePort>): ReadonlyMap<ServicePortKey, ServicePort> {
  return new Map(Array.from(ports, (port) => [servicePortKey(port.name, port.protocol), port]));
}
