import type { Configuration } from "./mod.ts";
import type { Family, FamilySettings, IpvsSettings, LocalTraffic } from "../core/model/mod.ts";
import { familyOf, isLoopback } from "../platform/mod.ts";
import type { NodeState, ServiceRanges } from "../core/tracking/mod.ts";

/** What holds for all services of a family, from the configuration and what is known of this node and the cluster. */
export function familySettings(
  family: Family,
  configuration: Configuration,
  node: NodeState,
  serviceRanges: ServiceRanges,
): FamilySettings {
  return {
    mode: configuration.mode,
    nodeIP: node.nodeIPs[family],
    localTraffic: localTraffic(family, configuration, node),
    masqueradeAll: configuration.masqueradeAll,
    masqueradeMark: 2 ** configuration.masqueradeBit,
    nodePortPrefixes: nodePortPrefixes(family, configuration, node),
    localhostNodePorts: configuration.iptables.localhostNodePorts,
    conntrackTcpLiberal: configuration.conntrack.tcpBeLiberal,
    serviceRanges: configuration.mode === "nftables" ? serviceRanges[family] : [],
    syncPeriodMs: configuration.syncPeriodMs,
    ipvs: ipvsSettings(family, configuration),
  };
}

/** Without a prefix of this family, no traffic counts as local, as in kube-proxy. */
function localTraffic(family: Family, configuration: Configuration, node: NodeState): LocalTraffic {
  const fromPrefix = (prefix: string | undefined): LocalTraffic =>
    prefix === undefined ? { by: "none" } : { by: "source-prefix", prefix };
  switch (configuration.detectLocalMode) {
    case "ClusterCIDR":
      return fromPrefix(configuration.clusterCIDR[family]);
    case "NodeCIDR":
      return fromPrefix(node.podCIDRs[family]);
    case "BridgeInterface":
      return { by: "bridge", interface: configuration.detectLocal.bridgeInterface };
    case "InterfaceNamePrefix":
      return { by: "interface-prefix", prefix: configuration.detectLocal.interfaceNamePrefix };
  }
}

/** Whether node ports are to be on this node's primary address, and that is not known for this family. */
export function lacksPrimaryAddress(family: Family, configuration: Configuration, node: NodeState): boolean {
  return configuration.nodePortAddresses.includes("primary") && isLoopback(node.nodeIPs[family]);
}

/**
 * The prefixes of this node's addresses that serve node ports; undefined for all of them, also where nothing is said of
 * this family (kube-proxy's NewNodePortAddresses), or its primary address is not known (kube-proxy's NewProxyServer).
 */
export function nodePortPrefixes(
  family: Family,
  configuration: Configuration,
  node: NodeState,
): readonly string[] | undefined {
  if (lacksPrimaryAddress(family, configuration, node)) return undefined;
  const nodeIP = node.nodeIPs[family];
  const prefixes = configuration.nodePortAddresses
    .map((given) => given === "primary" ? `${nodeIP}/${family === "IPv4" ? 32 : 128}` : given)
    .filter((prefix) => familyOf(prefix) === family);
  return prefixes.length === 0 ? undefined : prefixes;
}

/** What IPVS mode is told at its start; undefined in other modes. */
export function ipvsSettings(family: Family, { mode, ipvs }: Configuration): IpvsSettings | undefined {
  if (mode !== "ipvs") return undefined;
  // As kube-proxy's ConfigureTimeouts does, a part of a second counts for nothing.
  const seconds = (milliseconds: number) => Math.min(Math.floor(milliseconds / 1000), 2 ** 31 - 1);
  return {
    scheduler: ipvs.scheduler || "rr",
    strictARP: ipvs.strictARP,
    excludePrefixes: ipvs.excludeCIDRs.filter((prefix) => familyOf(prefix) === family),
    timeoutSeconds: {
      tcp: seconds(ipvs.tcpTimeoutMs),
      tcpFin: seconds(ipvs.tcpFinTimeoutMs),
      udp: seconds(ipvs.udpTimeoutMs),
    },
  };
}
