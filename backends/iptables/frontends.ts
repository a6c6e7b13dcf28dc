import type { ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import {
  comment,
  destinationPort,
  hostPrefix,
  type ServiceChainNames,
  serviceChainNames,
  type Table,
} from "../xtables/mod.ts";
import { type DispatchEntry, frontendPlace } from "./dispatch.ts";
import { usesExternalChain, usesFirewallChain } from "./service_chains.ts";

/** The dispatch trees, by what they find. */
export type TreeName =
  | "services"
  | "nodePorts"
  | "refusedInternally"
  | "refusedExternally"
  | "refusedNodePorts"
  | "firewall"
  | "healthCheckNodePorts";

/** The table that a tree's chains are in. */
export const TREE_TABLE: Readonly<Record<TreeName, Table>> = {
  services: "nat",
  nodePorts: "nat",
  refusedInternally: "filter",
  refusedExternally: "filter",
  refusedNodePorts: "filter",
  firewall: "filter",
  healthCheckNodePorts: "filter",
};

/** A rule of a dispatch tree, and which tree it is for. */
export interface FrontendRule extends DispatchEntry {
  readonly tree: TreeName;
  /** Its text, without its `-A CHAIN `. */
  rule(): string;
}

/**
 * The rules that lead packets to a service port's chains, or refuse them: kube-proxy's rules of KUBE-SERVICES,
 * KUBE-NODEPORTS, KUBE-EXTERNAL-SERVICES and KUBE-PROXY-FIREWALL for it.
 */
export function frontendRules(
  port: ServicePort,
  owner: ServicePortKey,
  names = serviceChainNames(port),
): FrontendRule[] {
  return [
    ...clusterIPRules(port, owner, names),
    ...externalAddressRules(port, owner, names),
    ...nodePortRules(port, owner, names),
    ...healthCheckRules(port, owner),
  ];
}

/** REJECT as iptables-save prints it; the kernel adds the family's kind of `port unreachable`. */
function refusal(port: ServicePort, verdict: "reject" | "drop"): string {
  if (verdict === "drop") return "-j DROP";
  return `-j REJECT --reject-with ${port.clusterIP.includes(":") ? "icmp6" : "icmp"}-port-unreachable`;
}

const refusalReason = (verdict: "reject" | "drop") =>
  verdict === "drop" ? "has no local endpoints" : "has no endpoints";

function toAddress(port: ServicePort, address: string, what: string): string {
  const about = comment(`${port.name} ${what}`);
  return `-d ${hostPrefix(address)} ${destinationPort(port.protocol, about, port.port)}`;
}

function clusterIPRules(port: ServicePort, owner: ServicePortKey, names: ServiceChainNames): FrontendRule[] {
  const place = frontendPlace(port.clusterIP, port.protocol, port.port);
  const { internal } = port;
  if (internal === "cluster" || internal === "local") {
    const chain = internal === "cluster" ? names.cluster : names.local;
    const rule = () => `${toAddress(port, port.clusterIP, "cluster IP")}-j ${chain}`;
    return [{ tree: "services", place, owner, rule }];
  }
  const rule = () => toAddress(port, port.clusterIP, refusalReason(internal)) + refusal(port, internal);
  return [{ tree: "refusedInternally", place, owner, rule }];
}

function externalAddressRules(port: ServicePort, owner: ServicePortKey, names: ServiceChainNames): FrontendRule[] {
  const rules: FrontendRule[] = [];
  const add = (tree: TreeName, address: string, what: string, target: string) =>
    rules.push({
      tree,
      place: frontendPlace(address, port.protocol, port.port),
      owner,
      rule: () => toAddress(port, address, what) + target,
    });
  for (const address of port.externalIPs) {
    if (usesExternalChain(port)) add("services", address, "external IP", `-j ${names.external}`);
  }
  for (const address of port.loadBalancerIPs) {
    if (port.externalIPs.includes(address)) continue;
    if (usesFirewallChain(port)) {
      add("services", address, "loadbalancer IP", `-j ${names.firewall}`);
      add("firewall", address, `traffic not accepted by ${names.firewall}`, "-j DROP");
    } else if (usesExternalChain(port)) {
      add("services", address, "loadbalancer IP", `-j ${names.external}`);
    }
  }
  const { external } = port;
  if (external === "reject" || external === "drop") {
    for (const address of new Set([...port.externalIPs, ...port.loadBalancerIPs])) {
      add("refusedExternally", address, refusalReason(external), refusal(port, external));
    }
  }
  return rules;
}

function nodePortRules(port: ServicePort, owner: ServicePortKey, names: ServiceChainNames): FrontendRule[] {
  if (port.nodePort === 0) return [];
  const place = frontendPlace("", port.protocol, port.nodePort);
  const to = (what: string, target: string) => () =>
    destinationPort(port.protocol, comment(`${port.name} ${what}`), port.nodePort) + target;
  const rules: FrontendRule[] = [];
  if (usesExternalChain(port)) {
    rules.push({ tree: "nodePorts", place, owner, rule: to("node port", `-j ${names.external}`) });
  }
  if (port.external === "reject" || port.external === "drop") {
    const rule = to(refusalReason(port.external), refusal(port, port.external));
    rules.push({ tree: "refusedNodePorts", place, owner, rule });
  }
  return rules;
}

/** Health checks of a load balancer are let in even where the host's own rules would not. */
function healthCheckRules(port: ServicePort, owner: ServicePortKey): FrontendRule[] {
  if (port.healthCheckNodePort === 0) return [];
  const about = comment(`${port.name} health check node port`);
  const rule = () => `${destinationPort("tcp", about, port.healthCheckNodePort)}-j ACCEPT`;
  const place = frontendPlace("", "tcp", port.healthCheckNodePort);
  return [{ tree: "healthCheckNodePorts", place, owner, rule }];
}
