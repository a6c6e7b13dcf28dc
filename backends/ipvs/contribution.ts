import type { Family, FamilySettings, ServicePort, Verdict } from "../../core/model/mod.ts";
import { prefixContains, splitHostPort } from "../../platform/mod.ts";
import { type Entry, entryOf, NODE_PORT_SETS, type SetKind } from "./sets.ts";
import { serverDefinition, type ServerKey, serverKey, type VirtualServer } from "./virtual_servers.ts";

/** What decides how a service port looks in the kernel, beside itself. */
export interface Circumstances {
  readonly family: Family;
  readonly settings: FamilySettings;
  readonly scheduler: string;
  /** This node's own addresses, those of the dummy interface not among them. */
  readonly nodeAddresses: readonly string[];
}

/** Everything in the kernel that is there because of one service port. */
export interface Contribution {
  readonly servers: ReadonlyMap<ServerKey, VirtualServer>;
  /** Addresses of the dummy interface. */
  readonly addresses: ReadonlySet<string>;
  readonly entries: ReadonlySet<Entry>;
  /** Load balancer frontends that the node itself must not use, as `address protocol port`. */
  readonly closedToNode: readonly string[];
}

/** What a service port contributes. */
export function contributionOf(port: ServicePort, circumstances: Circumstances): Contribution {
  const { family, settings, scheduler, nodeAddresses } = circumstances;
  const servers = new Map<ServerKey, VirtualServer>();
  const addresses = new Set<string>();
  const entries = new Set<Entry>();
  const closedToNode: string[] = [];
  const definition = serverDefinition(scheduler, port.affinitySeconds);
  const enter = (kind: SetKind, element: string) => entries.add(entryOf(kind, family, element));
  const serve = (address: string, number: number, realServers: readonly string[]) => {
    const key = serverKey(port.protocol, address, number);
    if (!servers.has(key)) servers.set(key, { definition, realServers });
  };
  const bind = (address: string) => {
    addresses.add(address);
    enter("boundAddresses", address);
  };
  // An address that is the node's own must not be on two interfaces (kube-proxy's rule).
  const isNodes = (address: string) => nodeAddresses.includes(address);
  const at = (address: string) => `${address},${port.protocol}:${port.port}`;
  const outside = externalRealServers(port);
  const keepsSource = port.external === "local" || port.external === "drop";

  for (const endpoint of port.endpointsOnThisNode) {
    const { address, port: number } = splitHostPort(endpoint);
    enter("loopBack", `${address},${port.protocol}:${number},${address}`);
  }
  serve(port.clusterIP, port.port, internalRealServers(port));
  bind(port.clusterIP);
  enter("clusterIP", at(port.clusterIP));
  for (const address of port.externalIPs) {
    serve(address, port.port, outside);
    if (!isNodes(address)) bind(address);
    enter(keepsSource ? "externalIPLocal" : "externalIP", at(address));
  }
  for (const address of port.loadBalancerIPs) {
    if (port.externalIPs.includes(address)) continue;
    serve(address, port.port, outside);
    if (!isNodes(address)) bind(address);
    enter("loadBalancer", at(address));
    if (keepsSource) enter("loadBalancerLocal", at(address));
    for (const [kind, element] of firewallEntries(port, address, settings)) enter(kind, element);
    if (isFirewalled(port) && !nodeMayEnter(port, settings)) {
      closedToNode.push(`${address} ${port.protocol} ${port.port}`);
    }
  }
  if (port.nodePort !== 0) {
    const { all, local } = NODE_PORT_SETS[port.protocol];
    for (const address of nodePortAddresses(circumstances)) {
      serve(address, port.nodePort, outside);
      const element = port.protocol === "sctp" ? `${address},sctp:${port.nodePort}` : String(port.nodePort);
      enter(all, element);
      if (keepsSource) enter(local, element);
    }
  }
  if (port.healthCheckNodePort !== 0) enter("healthCheckNodePort", String(port.healthCheckNodePort));
  return { servers, addresses, entries, closedToNode };
}

/** Whether a service port looks different where the node has other addresses. */
export function dependsOnNode({ nodePort, externalIPs, loadBalancerIPs }: ServicePort): boolean {
  return nodePort !== 0 || externalIPs.length > 0 || loadBalancerIPs.length > 0;
}

/** This node's addresses that serve node ports. */
export function nodePortAddresses({ settings, nodeAddresses }: Circumstances): readonly string[] {
  const { nodePortPrefixes } = settings;
  if (!nodePortPrefixes) return nodeAddresses;
  return nodeAddresses.filter((address) => nodePortPrefixes.some((prefix) => prefixContains(prefix, address)));
}

function byVerdict(port: ServicePort, verdict: Verdict): readonly string[] {
  return verdict === "cluster" ? port.clusterEndpoints : verdict === "local" ? port.localEndpoints : [];
}

/** The kernel refuses connections to a virtual server without real servers: it is the same as `reject`. */
function internalRealServers(port: ServicePort): readonly string[] {
  return byVerdict(port, port.internal);
}

/**
 * A virtual server has one list for everybody. With policy Local it is that of this node; where that is empty, this
 * node's pods still get to the others, and answers to anybody else find no way back (kubernetes PR 97081).
 */
function externalRealServers(port: ServicePort): readonly string[] {
  return port.external === "drop" ? port.clusterEndpoints : byVerdict(port, port.external);
}

function isFirewalled({ sourceRanges }: ServicePort): boolean {
  return sourceRanges.length > 0 && !sourceRanges.some((range) => range.endsWith("/0"));
}

function nodeMayEnter({ sourceRanges }: ServicePort, { nodeIP }: FamilySettings): boolean {
  return sourceRanges.some((range) => prefixContains(range, nodeIP));
}

/**
 * Who may use a load balancer address. Where the node itself may, so may traffic that it sends to the address as if
 * from that address (kube-proxy's rule for load balancers whose address is configured on the node).
 */
function firewallEntries(port: ServicePort, address: string, settings: FamilySettings): [SetKind, string][] {
  if (!isFirewalled(port)) return [];
  const frontend = `${address},${port.protocol}:${port.port}`;
  return [
    ["loadBalancerFirewall", frontend],
    ...port.sourceRanges.map((range): [SetKind, string] => [
      "loadBalancerSourceRange",
      `${frontend},${range.replace(address.includes(":") ? /\/128$/ : /\/32$/, "")}`,
    ]),
    ...(nodeMayEnter(port, settings)
      ? [["loadBalancerSourceIP", `${frontend},${address}`] satisfies [SetKind, string]]
      : []),
  ];
}
