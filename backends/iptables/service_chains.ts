import { admittedSources, type FamilySettings, hasExternalFrontends, type ServicePort } from "../../core/model/mod.ts";
import { hostPrefix } from "../../platform/mod.ts";
import {
  affinityListName,
  BASE,
  destinationPort,
  localMatch,
  namesBeside,
  oneOf,
  type ServiceChainNames,
  serviceChainNames,
} from "../xtables/mod.ts";

/** Whether a service port has an external chain. */
function usesExternalChain(port: ServicePort): boolean {
  return port.external !== "reject" && hasExternalFrontends(port);
}

/** Whether a service port has a firewall chain, which admits some sources to its load balancer IPs. */
function usesFirewallChain(port: ServicePort): boolean {
  return port.external !== "reject" && port.loadBalancerIPs.length > 0 && port.loadBalancerSources !== undefined;
}

/** The names of the chains that a service port has, in an order in which each refers to earlier ones only. */
export function chainsOf(port: ServicePort, names: ServiceChainNames = serviceChainNames(port)): string[] {
  const chains: string[] = [];
  if (port.clusterEndpoints.length > 0) chains.push(names.cluster);
  if (port.localEndpoints.length > 0) chains.push(names.local);
  if (usesExternalChain(port)) chains.push(names.external);
  if (usesFirewallChain(port)) chains.push(names.firewall);
  return chains;
}

/** The rules of one of the chains that `chainsOf` names. */
export function renderServiceChain(port: ServicePort, chain: string, settings: FamilySettings): readonly string[] {
  const names = namesBeside(chain);
  switch (chain) {
    case names.cluster:
      return [
        ...(port.internal === "cluster" ? internalMasquerade(port, settings) : []),
        ...endpointChoice(port, port.clusterEndpoints),
      ];
    case names.local:
      return [
        ...(port.internal === "local" ? internalMasquerade(port, settings) : []),
        ...endpointChoice(port, port.localEndpoints),
      ];
    case names.external:
      return externalRules(port, names, settings);
    case names.firewall:
      return firewallRules(port, names);
    default:
      throw new Error(`${port.name} has no chain ${chain}`);
  }
}

/**
 * Traffic to the cluster IP that did not come from a pod of this node may have been routed here from elsewhere, and
 * must come back this way: it is masqueraded (kube-proxy's rule for static routes to the service range). The cluster
 * IP is matched only where traffic for other addresses comes through the same chain unmarked: each match costs the
 * kernel time at every commit.
 */
function internalMasquerade(port: ServicePort, settings: FamilySettings): string[] {
  const isShared = usesExternalChain(port) && port.external !== "cluster";
  const destination = isShared ? `-d ${hostPrefix(port.clusterIP)} ` : "";
  const transport = isShared ? destinationPort(port.protocol, "", port.port) : "";
  const at = (source: string, inInterface: string) =>
    `${source}${destination}${inInterface}${transport}-j ${BASE.markMasquerade}`;
  if (settings.masqueradeAll) return [at("", "")];
  const other = localMatch(settings.localTraffic, false);
  return other ? [at(other.source, other.inInterface)] : [];
}

/**
 * One rule per endpoint that picks it with the right chance and rewrites the destination; with session affinity, one
 * more before these for the endpoint that the client was last sent to.
 */
function endpointChoice(port: ServicePort, endpoints: readonly string[]): string[] {
  const to = (endpoint: string) => `-j DNAT --to-destination ${endpoint}`;
  const protocol = `-p ${port.protocol} `;
  if (port.affinitySeconds === 0) {
    return endpoints.map((endpoint, i) => protocol + oneOf(endpoints.length - i) + to(endpoint));
  }
  const mask = port.clusterIP.includes(":") ? "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" : "255.255.255.255";
  const remembered = endpoints.map((endpoint) =>
    `--name ${affinityListName(port, endpoint)} --mask ${mask} --rsource `
  );
  return [
    ...endpoints.map((endpoint, i) =>
      `${protocol}-m recent --update --seconds ${port.affinitySeconds} --reap ${remembered[i]}${to(endpoint)}`
    ),
    ...endpoints.map((endpoint, i) =>
      `${protocol}${oneOf(endpoints.length - i)}-m recent --set ${remembered[i]}${to(endpoint)}`
    ),
  ];
}

/**
 * Traffic to external addresses and node ports. With policy Local the client's address is kept, and traffic of this
 * node and its pods goes to any endpoint, as if it had gone out to a load balancer and come back; with policy Cluster
 * everything is masqueraded, since the endpoint may be elsewhere (kube-proxy's external chain).
 */
function externalRules(port: ServicePort, names: ServiceChainNames, settings: FamilySettings): string[] {
  if (port.external === "cluster") return [`-j ${BASE.markMasquerade}`, `-j ${names.cluster}`];
  const rules: string[] = [];
  if (port.clusterEndpoints.length > 0) {
    const pods = localMatch(settings.localTraffic, true);
    if (pods) rules.push(`${pods.source}${pods.inInterface}-j ${names.cluster}`);
    rules.push(`-m addrtype --src-type LOCAL -j ${BASE.markMasquerade}`);
    rules.push(`-m addrtype --src-type LOCAL -j ${names.cluster}`);
  }
  if (port.external === "local") rules.push(`-j ${names.local}`);
  return rules;
}

/** The sources that may use the load balancer IPs. KUBE-PROXY-FIREWALL drops the packets that no rule here takes. */
function firewallRules(port: ServicePort, names: ServiceChainNames): string[] {
  return (admittedSources(port) ?? []).map((prefix) => `-s ${prefix} -j ${names.external}`);
}
