import type { ServicePort } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";

/** The tables with rules of services. */
export type Table = "filter" | "nat";

/** Both tables, in the order in which they are restored: packets are rejected before they are forwarded. */
export const TABLES: readonly Table[] = ["filter", "nat"];

/** The chains of one service port. The names are kube-proxy's, so that either program can take over from the other. */
export interface ServiceChainNames {
  /** Picks one of the endpoints for traffic policy Cluster. */
  readonly cluster: string;
  /** Picks one of the endpoints for traffic policy Local. */
  readonly local: string;
  /** Handles traffic to external addresses and node ports. */
  readonly external: string;
  /** Admits the permitted sources to a load balancer address. */
  readonly firewall: string;
}

/** The name prefixes of the chains that belong to one service port. */
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

/** The names of all chains of the service port that owns this chain, without hashing the port's name again. */
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
 * The name of the xt_recent list with the clients of an endpoint: that of kube-proxy's chain for the endpoint, so that
 * clients keep their endpoints when one program takes over from the other.
 */
export function affinityListName(port: Pick<ServicePort, "name" | "protocol">, endpoint: string): string {
  return "KUBE-SEP-" + shortHash(port.name + port.protocol + endpoint);
}

/**
 * The chains that packets enter. The names are kube-proxy's, with four exceptions: `externalNodePorts` has the node ports
 * of KUBE-EXTERNAL-SERVICES, `localhostNodePorts` counts packets to KUBE-NODEPORTS at a loopback address (kube-proxy
 * deletes chains with these prefixes when it takes over), `relayed` protects the ports of the relay, and `martians` has the rule of KUBE-FIREWALL, a chain that belongs
 * to the kubelet.
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
  relayed: "KUBE-SVC-RELAYED",
} as const;

/**
 * Whether only Sluice or kube-proxy's iptables mode creates chains of this name, for services: an unwanted one may be
 * deleted. The prefixes are kube-proxy's, so that it deletes Sluice's dispatch chains too.
 */
export function isServiceChain(table: Table, name: string): boolean {
  return table === "nat" ? /^KUBE-(SVC|SVL|SEP|EXT|FW|XLB)-/.test(name) : /^KUBE-(SVC|EXT|FW)-/.test(name);
}
