/** How the kernel is told to balance load. */
export type ProxyMode = "iptables" | "nftables" | "ipvs";

/** How traffic that comes from a pod of this node is told from other traffic (kube-proxy's detectLocalMode). */
export type LocalTraffic =
  | { readonly by: "none" }
  | { readonly by: "source-prefix"; readonly prefix: string }
  | { readonly by: "bridge"; readonly interface: string }
  | { readonly by: "interface-prefix"; readonly prefix: string };

/** What holds for all of a family's services. */
export interface FamilySettings {
  readonly mode: ProxyMode;
  /** This node's primary address of this family; the unspecified or loopback address where none is known. */
  readonly nodeIP: string;
  readonly localTraffic: LocalTraffic;
  readonly masqueradeAll: boolean;
  /** The packet mark that asks for masquerading: one bit of 32 (0x4000 by default). */
  readonly masqueradeMark: number;
  /** The node addresses that serve node ports: prefixes of this family; undefined for all of them. */
  readonly nodePortPrefixes: readonly string[] | undefined;
  /** Whether loopback addresses serve node ports (iptables mode, IPv4): those in `nodePortPrefixes`. */
  readonly localhostNodePorts: boolean;
  /** Whether the kernel takes out-of-window TCP packets for valid: INVALID ones need no drop then (iptables mode). */
  readonly conntrackTcpLiberal: boolean;
  /**
   * The ranges that cluster IPs are taken from, as canonical prefixes of this family (nftables mode; empty in others):
   * what is sent to an address of theirs that no service has is dropped.
   */
  readonly serviceRanges: readonly string[];
  /** How often the kernel is compared with what it should hold. */
  readonly syncPeriodMs: number;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
}

/**
 * The interface that holds the service addresses in IPVS mode, by kube-proxy's name. They are not the node's own: no
 * node port and no health check is served there.
 */
export const DUMMY_INTERFACE = "kube-ipvs0";

/** What IPVS mode is told at its start, for one family (kube-proxy's section `ipvs` of the configuration). */
export interface IpvsSettings {
  /** The kernel's name of the scheduler of all virtual servers: `rr`. */
  readonly scheduler: string;
  /** Whether the node answers ARP requests only for addresses of the interface that they come in by. */
  readonly strictARP: boolean;
  /** Prefixes of this family: virtual servers in them are somebody else's. */
  readonly excludePrefixes: readonly string[];
  /** How long idle connections are kept, in seconds; 0 leaves it to the kernel. */
  readonly timeoutSeconds: { readonly tcp: number; readonly tcpFin: number; readonly udp: number };
}
