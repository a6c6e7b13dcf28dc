import type { Configuration } from "./configuration.ts";
import { isFeatureEnabled } from "./feature_gates.ts";
import { featuresOn } from "../features/mod.ts";
import type { RelaySettings } from "../core/channel/mod.ts";
import type { FamilySettings, IpvsSettings, LocalTraffic, PortRange } from "../core/model/mod.ts";
import {
  FAMILIES,
  type Family,
  familyOf,
  hostPrefix,
  isLoopback,
  LOOPBACK_ADDRESS,
  prefixContains,
  UNSPECIFIED_ADDRESS,
} from "../platform/mod.ts";
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
    ...Object.assign(
      {},
      ...featuresOn(configuration, configuration.modeDescription).map((feature) =>
        feature.familySettings?.(configuration)
      ),
    ),
    ipvs: ipvsSettings(family, configuration),
  };
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

/**
 * Whether node ports should be on this node's primary address, but that is unknown for this family, and no other address
 * that other hosts reach is configured.
 */
export function lacksPrimaryAddress(
  family: Family,
  configuration: Configuration,
  node: Pick<NodeState, "nodeIPs">,
): boolean {
  return configuration.nodePortAddresses.includes("primary") && isLoopback(node.nodeIPs[family]) &&
    configuredPrefixes(family, configuration, node).every(isOfLoopback);
}

/**
 * The prefixes of this node's addresses that serve node ports; undefined for all of them, also if none is configured for this
 * family (kube-proxy's NewNodePortAddresses). None while only the primary address is configured but unknown, where
 * kube-proxy's NewProxyServer opens all.
 */
export function nodePortPrefixes(
  family: Family,
  configuration: Configuration,
  node: Pick<NodeState, "nodeIPs">,
): readonly string[] | undefined {
  const prefixes = configuredPrefixes(family, configuration, node);
  return prefixes.length === 0 && !lacksPrimaryAddress(family, configuration, node) ? undefined : prefixes;
}

/** The prefixes of a family that `nodePortAddresses` lists, and those that its keywords stand for. */
function configuredPrefixes(
  family: Family,
  { nodePortAddresses }: Configuration,
  { nodeIPs }: Pick<NodeState, "nodeIPs">,
): readonly string[] {
  return nodePortAddresses
    .flatMap((given) => isNodePortKeyword(given) ? prefixesOfKeyword(given, nodeIPs) : given)
    .filter((prefix) => familyOf(prefix) === family);
}

/** The parts of the configuration that decide whether loopback addresses serve node ports. */
interface LocalhostChoice extends Pick<Configuration, "featureGates" | "modeDescription"> {
  readonly iptables: Pick<Configuration["iptables"], "localhostNodePorts">;
}

/**
 * Whether loopback addresses serve node ports: in iptables mode for IPv4, since the kernel must route them, and in userspace
 * mode, if they are among the prefixes that serve node ports (kube-proxy's ContainsIPv4Loopback); in nftables and ipvs mode,
 * where the relay serves them, only if such a prefix is named (KEP-6032), in nftables mode subject to its feature gate.
 */
export function servesLocalhost(
  family: Family,
  { featureGates, modeDescription, iptables }: LocalhostChoice,
  prefixes: readonly string[] | undefined,
): boolean {
  const { settings, relay } = modeDescription;
  const localhost = LOOPBACK_ADDRESS[family];
  if (relay === "localhost-node-ports") {
    const hasGate = settings.section === "nftables";
    if (hasGate && !isFeatureEnabled("KubeProxyNFTablesLocalhostNodePorts", featureGates)) return false;
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
  if (!usesRelay(family, configuration)) return undefined;
  const { maxConnections, udpIdleTimeoutMs } = configuration.userspace;
  const ports = configuration.modeDescription.relay === "services" ? readPortRange(configuration.portRange) : undefined;
  return { files, maxConnections, udpIdleTimeoutMs, ...ports && { ports } };
}

/** Whether any family needs a relay. */
export function usesAnyRelay(configuration: Configuration): boolean {
  return FAMILIES.some((family) => usesRelay(family, configuration));
}

/** Whether a family needs a relay. */
export function usesRelay(family: Family, configuration: Configuration): boolean {
  const { relay } = configuration.modeDescription;
  return relay === "localhost-node-ports" ? mayServeLocalhost(family, configuration) : relay === "services";
}

/** Whether loopback addresses will serve node ports: the node's primary address, not known yet, is no loopback address. */
export function mayServeLocalhost(family: Family, configuration: Configuration): boolean {
  const node = { nodeIPs: UNSPECIFIED_ADDRESS };
  return servesLocalhost(family, configuration, nodePortPrefixes(family, configuration, node));
}

/** The keywords of `nodePortAddresses`, which may be combined with each other and with prefixes (KEP-6032). */
export const NODE_PORT_KEYWORDS = ["primary", "localhost", "all"] as const;

type NodePortKeyword = typeof NODE_PORT_KEYWORDS[number];

function isNodePortKeyword(entry: string): entry is NodePortKeyword {
  return NODE_PORT_KEYWORDS.some((keyword) => keyword === entry);
}

/**
 * The prefixes of both families that a keyword stands for, as in kube-proxy 1.37. `nodeIPs` are the node's primary addresses;
 * a loopback address stands for an unknown one, which has no prefix.
 */
function prefixesOfKeyword(keyword: NodePortKeyword, nodeIPs: Readonly<Record<Family, string>>): readonly string[] {
  switch (keyword) {
    case "primary":
      return FAMILIES.filter((family) => !isLoopback(nodeIPs[family]))
        .map((family) => hostPrefix(nodeIPs[family]));
    case "localhost":
      return ["127.0.0.0/8", "::1/128"];
    case "all":
      return ["0.0.0.0/0", "::/0"];
  }
}

/**
 * Reads a port range as kube-proxy (k8s.io/apimachinery/pkg/util/net, PortRange): `8000`, `8000-8010` or `8000+10`. Undefined for
 * any port: an empty text, or a range that begins at 0.
 * @throws {Error} if the text is no range
 */
export function readPortRange(text: string): PortRange | undefined {
  if (text.trim() === "") return undefined;
  const [, start, separator, end] = /^\s*(\d+)(?:([-+])(\d+))?\s*$/.exec(text) ?? [];
  const first = Number(start), last = separator === "+" ? first + Number(end) : Number(end ?? start);
  if (!(first <= last && last <= 65535)) throw new Error("not a port range");
  return first === 0 ? undefined : { first, last };
}
