import type { Configuration } from "./configuration.ts";
import type { RelaySettings } from "../core/channel/mod.ts";
import type { Family, FamilySettings, IpvsSettings, LocalTraffic } from "../core/model/mod.ts";
import { FAMILIES, familyOf, isLoopback, prefixContains } from "../platform/mod.ts";
import type { NodeState, ServiceRanges } from "../core/tracking/mod.ts";

/** The settings of a family, from the configuration, the node's state and the cluster's service ranges. */
export function familySettings(
  family: Family,
  configuration: Configuration,
  node: NodeState,
  serviceRanges: ServiceRanges,
): FamilySettings {
  const prefixes = nodePortPrefixes(family, configuration, node);
  const { kinds } = configuration.modeDescription;
  return {
    mode: configuration.mode,
    nodeIP: node.nodeIPs[family],
    localTraffic: localTraffic(family, configuration, node),
    masqueradeAll: configuration.masqueradeAll,
    masqueradeMark: 2 ** configuration.masqueradeBit,
    nodePortPrefixes: prefixes,
    localhostNodePorts: servesLocalhost(family, configuration, prefixes),
    conntrackTcpLiberal: configuration.conntrack.tcpBeLiberal,
    serviceRanges: kinds.includes("ServiceCIDR") ? serviceRanges[family] : [],
    syncPeriodMs: configuration.syncPeriodMs,
    ...(countsTraffic(configuration) ? { countTraffic: true } : {}),
    ...(configuration.failover.endpointFailureDetection ? { countsAttempts: true as const } : {}),
    ...(configuration.failover.resetGoneConnections
      ? { resetsGone: true as const, goneTimeoutMs: configuration.failover.goneTimeoutMs }
      : {}),
    ipvs: ipvsSettings(family, configuration),
  };
}

/** Whether traffic is counted. */
export function countsTraffic(
  { traffic, modeDescription }: Pick<Configuration, "traffic" | "modeDescription">,
): boolean {
  return traffic.metrics && modeDescription.metrics.countsTraffic !== false;
}

/** Without a prefix of this family, no traffic is local, as in kube-proxy. */
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

/** Whether node ports should be on this node's primary address, but that is unknown for this family. */
export function lacksPrimaryAddress(
  family: Family,
  configuration: Configuration,
  node: Pick<NodeState, "nodeIPs">,
): boolean {
  return configuration.nodePortAddresses.includes("primary") && isLoopback(node.nodeIPs[family]);
}

/**
 * The prefixes of this node's addresses that serve node ports; undefined for all of them, also if none is configured for this
 * family (kube-proxy's NewNodePortAddresses) or its primary address is unknown (kube-proxy's NewProxyServer).
 */
export function nodePortPrefixes(
  family: Family,
  configuration: Configuration,
  node: Pick<NodeState, "nodeIPs">,
): readonly string[] | undefined {
  if (lacksPrimaryAddress(family, configuration, node)) return undefined;
  const nodeIP = node.nodeIPs[family];
  const prefixes = configuration.nodePortAddresses
    .map((given) => given === "primary" ? `${nodeIP}/${family === "IPv4" ? 32 : 128}` : given)
    .filter((prefix) => familyOf(prefix) === family);
  return prefixes.length === 0 ? undefined : prefixes;
}

/** The parts of the configuration that decide whether loopback addresses serve node ports. */
export interface LocalhostChoice extends Pick<Configuration, "modeDescription"> {
  readonly iptables: Pick<Configuration["iptables"], "localhostNodePorts">;
}

/** The address at which programs of this node reach it. */
const LOCALHOST: Readonly<Record<Family, string>> = { IPv4: "127.0.0.1", IPv6: "::1" };

/**
 * Whether loopback addresses serve node ports: in iptables mode for IPv4, since the kernel must route them, and in userspace
 * mode, if they are among the prefixes that serve node ports (kube-proxy's ContainsIPv4Loopback); in nftables and ipvs mode,
 * where the relay serves them, only if such a prefix is named (KEP-6032).
 */
export function servesLocalhost(
  family: Family,
  { modeDescription, iptables }: LocalhostChoice,
  prefixes: readonly string[] | undefined,
): boolean {
  const { settings, relay } = modeDescription;
  const localhost = LOCALHOST[family];
  if (relay === "localhost-node-ports") {
    return prefixes?.some((prefix) => isOfLoopback(prefix) && prefixContains(prefix, localhost)) ?? false;
  }
  if (!settings.servesLocalhostNodePorts || !iptables.localhostNodePorts) return false;
  if (family === "IPv6" && relay === "none") return false;
  return prefixes === undefined || prefixes.some((prefix) => isOfLoopback(prefix) || prefixContains(prefix, localhost));
}

function isOfLoopback(prefix: string): boolean {
  return isLoopback(prefix.slice(0, prefix.indexOf("/")));
}

/** Whether the kernel routes loopback addresses, because they serve node ports and the mode needs that. */
export function routesLoopback({ localhostNodePorts }: FamilySettings, { modeDescription }: LocalhostChoice): boolean {
  return localhostNodePorts && modeDescription.relay === "none";
}

/** The settings of ipvs mode; undefined in other modes. */
export function ipvsSettings(family: Family, { modeDescription, ipvs }: Configuration): IpvsSettings | undefined {
  if (modeDescription.settings.section !== "ipvs") return undefined;
  // Rounded down, as in kube-proxy's ConfigureTimeouts.
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

/** Linux's default limit of open files. */
const DEFAULT_FILES = 1024;

/** The settings of a family's relay; undefined if it needs none. @param files the limit of open files, if it is known */
export function relaySettings(
  family: Family,
  configuration: Configuration,
  files = DEFAULT_FILES,
): RelaySettings | undefined {
  const { maxConnections, udpIdleTimeoutMs } = configuration.userspace;
  return usesRelay(family, configuration) ? { files, maxConnections, udpIdleTimeoutMs } : undefined;
}

/** Whether any family needs a relay. */
export function usesAnyRelay(configuration: Configuration): boolean {
  return FAMILIES.some((family) => usesRelay(family, configuration));
}

/** Whether a family needs a relay. */
export function usesRelay(family: Family, configuration: Configuration): boolean {
  const { relay } = configuration.modeDescription;
  if (relay !== "localhost-node-ports") return relay === "services";
  // The node's primary address, which is not known yet, is no loopback address.
  const node = { nodeIPs: { IPv4: "0.0.0.0", IPv6: "::" } };
  return servesLocalhost(family, configuration, nodePortPrefixes(family, configuration, node));
}
