/** The name of a mode, as `--proxy-mode` takes it: `nftables`. backends/registry.ts lists the modes. */
export type ProxyMode = string;

/** The detection of traffic from pods of this node (kube-proxy's detectLocalMode). */
export type LocalTraffic =
  | { readonly by: "none" }
  | { readonly by: "source-prefix"; readonly prefix: string }
  | { readonly by: "bridge"; readonly interface: string }
  | { readonly by: "interface-prefix"; readonly prefix: string };

/** The settings that apply to all services of a family. */
export interface FamilySettings {
  readonly mode: ProxyMode;
  /** This node's primary address of this family; the unspecified or loopback address if unknown. */
  readonly nodeIP: string;
  readonly localTraffic: LocalTraffic;
  readonly masqueradeAll: boolean;
  /** The packet mark for masquerading: one bit of 32 (0x4000 by default). */
  readonly masqueradeMark: number;
  /** The prefixes of node addresses that serve node ports; undefined for all addresses. */
  readonly nodePortPrefixes: readonly string[] | undefined;
  /** Whether loopback addresses serve node ports: those in `nodePortPrefixes`. */
  readonly localhostNodePorts: boolean;
  /** Whether conntrack accepts out-of-window TCP packets, so that INVALID ones need not be dropped (iptables mode). */
  readonly conntrackTcpLiberal: boolean;
  /** Whether the rules count connection attempts and their answers (nftables mode); absent if they do not. */
  readonly countsAttempts?: true;
  /**
   * The ranges of cluster IPs, as canonical prefixes of this family (nftables mode; empty in others). Traffic to an address
   * in them that no service has is dropped.
   */
  readonly serviceRanges: readonly string[];
  /** The interval of comparisons with the kernel. */
  readonly syncPeriodMs: number;
  /** Whether traffic is counted; absent if it is not. */
  readonly countTraffic?: true;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
  /**
   * The address of this node at which the relay takes connections (userspace mode). Undefined if the node's address is unknown
   * or not its own: then the kernel picks one for each packet, by the interface on which it arrived.
   */
  readonly relayAddress?: string;
}

/**
 * The interface that holds the service addresses in IPVS mode, by kube-proxy's name. They do not count as the node's own
 * addresses: they serve no node ports and no health checks.
 */
export const DUMMY_INTERFACE = "kube-ipvs0";

/** The settings of IPVS mode for one family (section `ipvs` of kube-proxy's configuration). */
export interface IpvsSettings {
  /** The scheduler of all virtual servers, by its name in the kernel: `rr`. */
  readonly scheduler: string;
  /** Whether the node answers ARP requests only for addresses of the interface on which they arrive. */
  readonly strictARP: boolean;
  /** Prefixes of this family; virtual servers in them belong to other programs. */
  readonly excludePrefixes: readonly string[];
  /** The timeouts of idle connections, in seconds; 0 keeps the kernel's. */
  readonly timeoutSeconds: { readonly tcp: number; readonly tcpFin: number; readonly udp: number };
}
