import { joinFlat } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import { BALANCE, type BalancedList, balanceSlots } from "./balance.ts";

/** The TCP port of Sluice's own service, which no other proxy serves. */
export const INTERNAL_PORT = 10260;

/** The transport protocols, in the lower case that the kernel's tools use. */
export const PROTOCOL = shape.oneOf("tcp", "udp", "sctp");

/** One of `PROTOCOL`. */
export type Protocol = shape.TypeOf<typeof PROTOCOL>;

/** The numbers of the protocols (IANA). */
export const PROTOCOL_NUMBERS: Readonly<Record<Protocol, number>> = { tcp: 6, udp: 17, sctp: 132 };

/** All protocols of services. */
export const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];

/** Names as the decoders accept them (core/objects/metadata.ts). */
const SERVICE_PORT_NAME = shape.text(/^[A-Za-z\d][\w.-]{0,62}\/[A-Za-z\d][\w.-]{0,62}(?::[A-Za-z\d][\w.-]{0,62})?$/);

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy prints it. */
export type ServicePortName = string;

/** Identifies a service port within a family: its name, `|` and its protocol (`default/web:http|tcp`). */
export type ServicePortKey = string;

/** A `ServicePortKey`. */
export const SERVICE_PORT_KEY = shape.text(/^[A-Za-z\d][\w.:/-]{0,200}\|(?:tcp|udp|sctp)$/);

/** The key of a service port. */
export function servicePortKey(name: ServicePortName, protocol: Protocol): ServicePortKey {
  return joinFlat("|", name, protocol);
}

/** The namespace of a service, from its key `namespace/name` or the name or key of one of its ports. */
export function namespaceOf(service: string): string {
  return service.slice(0, service.indexOf("/"));
}

/**
 * The verdict on a new connection to a frontend:
 * - `cluster`: it goes to one of `clusterEndpoints`;
 * - `local`: it goes to one of `localEndpoints`;
 * - `reject`: it is refused, since no endpoint in the cluster is usable;
 * - `drop`: it is dropped, since the traffic policy is Local and no endpoint on this node is usable.
 */
const VERDICT = shape.oneOf("cluster", "local", "reject", "drop");

/** One of `VERDICT`. */
export type Verdict = shape.TypeOf<typeof VERDICT>;

const LOAD_BALANCER_SOURCES = shape.record({
  /** Canonical prefixes of one family: at least one, none of length 0. */
  ranges: shape.list(shape.PREFIX),
  /** Whether the node's own address is in `ranges`. */
  includeNode: shape.BOOLEAN,
});

/** The sources that may use the load balancer IPs of a service port (`loadBalancerSourceRanges`). */
export type LoadBalancerSources = shape.TypeOf<typeof LOAD_BALANCER_SOURCES>;

/** The relay's ports for a service port (userspace mode), one for each used list; stable as long as it exists. */
const RELAY_PORTS = shape.record({
  /** The port whose connections go to `clusterEndpoints`. */
  cluster: shape.optional(shape.PORT_NUMBER),
  /** The port whose connections go to `localEndpoints`. */
  local: shape.optional(shape.PORT_NUMBER),
});

/** See `RELAY_PORTS`. */
export type RelayPorts = shape.TypeOf<typeof RELAY_PORTS>;

/** One port of one Service in one family, with every decision taken. `frontendsOf` lists its frontends. */
export const SERVICE_PORT = shape.record({
  /** A `ServicePortName`. */
  name: SERVICE_PORT_NAME,
  protocol: PROTOCOL,
  clusterIP: shape.ADDRESS,
  /** The port at the cluster IP, the external IPs and the load balancer IPs. */
  port: shape.PORT_NUMBER,
  externalIPs: shape.list(shape.ADDRESS),
  /** Load balancer addresses that this node answers for (ipMode VIP). */
  loadBalancerIPs: shape.list(shape.ADDRESS),
  /** The port on the node's own addresses; 0 for none. */
  nodePort: shape.PORT_NUMBER_OR_NONE,
  /**
   * The prefixes to which its Service limits the node port, canonical, of this family, none of length 0: of the addresses
   * that the settings select, those in one of them serve it. Absent without a limit.
   */
  nodePortPrefixes: shape.optional(shape.list(shape.PREFIX)),
  /** The node port that accepts health checks of a load balancer; 0 for none. */
  healthCheckNodePort: shape.PORT_NUMBER_OR_NONE,
  /** The verdict on traffic to the cluster IP. */
  internal: VERDICT,
  /**
   * The verdict on traffic from outside to external IPs, load balancer IPs and the node port. `local` and `drop` mean that the
   * external traffic policy is Local: traffic from this node and its pods then goes to `clusterEndpoints`.
   */
  external: VERDICT,
  /** The endpoints for policy Cluster, in a stable order without duplicates. Empty if no traffic uses it. */
  clusterEndpoints: shape.list(shape.HOST_PORT),
  /** The endpoints for policy Local; in a stable order without duplicates. Empty if no traffic uses that policy. */
  localEndpoints: shape.list(shape.HOST_PORT),
  /** The endpoints of both lists on this node, whose traffic to themselves must be masqueraded. */
  endpointsOnThisNode: shape.list(shape.HOST_PORT),
  /** For UDP: endpoints that get no new flows but still serve existing ones. Empty otherwise. */
  lingeringEndpoints: shape.list(shape.HOST_PORT),
  /** The timeout of session affinity in seconds; 0 without session affinity. */
  affinitySeconds: shape.integer(0, 2 ** 31 - 1),
  /** How new connections are spread over the endpoints; absent for the default of the mode. */
  balance: shape.optional(BALANCE),
  /** Undefined admits every client, also if all ranges are of the other family (kube-proxy's rule). */
  loadBalancerSources: shape.orUndefined(LOAD_BALANCER_SOURCES),
  /** The TCP endpoints left out because they do not answer this node, in a stable order. Absent without any. */
  unreachableEndpoints: shape.optional(shape.list(shape.HOST_PORT)),
  /** Added on the way to the worker in userspace mode; a list without a port there is served by the kernel. */
  relay: shape.optional(RELAY_PORTS),
});

/** See `SERVICE_PORT`. */
export interface ServicePort extends shape.TypeOf<typeof SERVICE_PORT> {}

/** The list of endpoints of a traffic policy. */
export function balancedList(
  { balance, clusterEndpoints, localEndpoints }: ServicePort,
  policy: "cluster" | "local",
): BalancedList {
  return policy === "cluster"
    ? { endpoints: clusterEndpoints, weights: balance?.clusterWeights, slots: balance?.clusterSlots }
    : { endpoints: localEndpoints, weights: balance?.localWeights, slots: balance?.localSlots };
}

/**
 * The maximum number of external and load balancer IPs of a service port that have slots of their own in nftables mode. More
 * share one list, or their number would multiply the endpoints'. With eight, an endpoint takes about as much as kube-proxy's
 * chain of an endpoint.
 */
const MOST_OWN_SLOTS = 8;

/** Whether the external and load balancer IPs of a service port share one list of slots. */
export function sharesSlots({ externalIPs, loadBalancerIPs }: ServicePort): boolean {
  return externalIPs.length + loadBalancerIPs.length > MOST_OWN_SLOTS;
}

/**
 * The size of a service port in the kernel: an element for each frontend, each slot of each list, each source range and each
 * prefix of a node port. Exact to within a small factor in nftables mode; other modes need less.
 */
export function kernelSize(port: ServicePort): number {
  const { loadBalancerIPs, balance, loadBalancerSources, nodePortPrefixes } = port;
  const slots = Math.max(
    balanceSlots(balance, balancedList(port, "cluster")),
    balanceSlots(balance, balancedList(port, "local")),
  );
  const outside = port.externalIPs.length + loadBalancerIPs.length, others = 1 + (port.nodePort === 0 ? 0 : 1);
  return others + outside + slots * (others + (sharesSlots(port) ? 1 : outside)) + (nodePortPrefixes?.length ?? 0) +
    (loadBalancerIPs.length > 0 ? loadBalancerSources?.ranges.length ?? 0 : 0);
}

/** The endpoints (`address:port`) that a service port uses or leaves out because they are unreachable. */
export function endpointsIn({ clusterEndpoints, localEndpoints, unreachableEndpoints = [] }: ServicePort): Set<string> {
  return new Set([...clusterEndpoints, ...localEndpoints, ...unreachableEndpoints]);
}
