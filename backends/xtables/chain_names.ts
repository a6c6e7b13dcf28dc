import type { ServicePort } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";

/** The tables that rules are kept in. */
export type Table = "filter" | "nat";

/** Both tables, in the order in which they are restored: what must be refused is refused before it is led on. */
export const TABLES: readonly Table[] = ["filter", "nat"];

/** The chains of one service port, by kube-proxy's names, so that either program takes over the other's. */
export interface ServiceChainNames {
  /** Picks one of the endpoints for traffic policy Cluster. */
  readonly cluster: string;
  /** Picks one of the endpoints for traffic policy Local. */
  readonly local: string;
  /** Where traffic to external addresses and node ports goes. */
  readonly external: string;
  /** Lets the permitted sources through to a load balancer address. */
  readonly firewall: string;
}

/** The kinds of chains that belong to one service port, by the beginning of their names. */
export const SERVICE_CHAIN_PREFIXES = {
  cluster: "KUBE-SVC-",
  local: "KUBE-SVL-",
  external: "KUBE-EXT-",
  firewall: "KUBE-FW-",
} as const;

/**
 * The names of a service port's chains: kube-proxy's prefixes and 16 characters of the hash of name and protocol.
 *
 * ```ts
 * import { serviceChainNames } from "./chain_names.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(serviceChainNames({ name: "default/kubernetes:https", protocol: "tcp" }).cluster, "KUBE-SVC-NPX46M4PTMTKRN6Y");
 * ```
 */
export function serviceChainNames(port: Pick<ServicePort, "name" | "protocol">): ServiceChainNames {
  return namesOfHash(shortHash(port.name + port.protocol));
}

/** The names of all chains of the service port that has this one: to hash its name again would cost more. */
export function namesBeside(chain: string): ServiceChainNames {
  return namesOfHash(chain.slice(chain.lastIndexOf("-") + 1));
}

function namesOfHash(hash: string): ServiceChainNames {
  return {
    cluster: SERVICE_CHAIN_PREFIXES.cluster + hash,
    local: SERVICE_CHAIN_PREFIXES.local + hash,
    external: SERVICE_CHAIN_PREFIXES.external + hash,
    firewall: SERVICE_CHAIN_PREFIXES.firewall + hash,
  };
}

/**
 * The name under which xt_recent remembers the clients of an endpoint: that of kube-proxy's chain for the endpoint, so
 * that clients stay where they are when one program takes over from the other.
 */
export function affinityListName(port: Pick<ServicePort, "name" | "protocol">, endpoint: string): string {
  return "KUBE-SEP-" + shortHash(port.name + port.protocol + endpoint);
}

/**
 * The chains that packets enter. Their names are kube-proxy's but for `externalNodePorts`, which has the node ports
 * of KUBE-EXTERNAL-SERVICES, `localhostNodePorts`, which counts what goes to KUBE-NODEPORTS at a loopback address (both
 * begin as chains do that kube-proxy deletes when it takes over), and `martians`, which has the rule of KUBE-FIREWALL: that
 * chain is the kubelet's.
 */
export const BASE = {
  services: "KUBE-SERVICES",
  nodePorts: "KUBE-NODEPORTS",
  postrouting: "KUBE-POSTROUTING",
  markMasquerade: "KUBE-MARK-MASQ",
  forward: "KUBE-FORWARD",
  proxyFirewall: "KUBE-PROXY-FIREWALL",
  externalServices: "KUBE-EXTERNAL-SERVICES",
  externalNodePorts: "KUBE-EXT-NODEPORTS",
  martians: "KUBE-MARTIANS",
  localhostNodePorts: "KUBE-SVC-LOCALHOST",
} as const;

/**
 * Whether a chain of the table is one that only Sluice or kube-proxy's iptables mode makes for services: one that no
 * service wants any more may be deleted. Beginnings are kube-proxy's, so that it deletes Sluice's dispatch chains too.
 */
export function isServiceChain(table: Table, name: string): boolean {
  return table === "nat" ? /^KUBE-(SVC|SVL|SEP|EXT|FW|XLB)-/.test(name) : /^KUBE-(SVC|EXT|FW)-/.test(name);
}
