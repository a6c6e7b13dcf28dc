/**
 * What travels from the cluster side to the kernel side: plain data, per IP family, already decided. A family worker
 * knows nothing of Kubernetes beyond these names.
 *
 * Addresses are canonical strings (see platform/address.ts), endpoints are `address:port` strings.
 */
import type { Family } from "../platform/address.ts";
import { solid } from "../platform/solid.ts";

export type { Family };

/** A transport protocol, in the lower case that the kernel's tools use. */
export type Protocol = "tcp" | "udp" | "sctp";

/** How the kernel is told to balance load. */
export type ProxyMode = "iptables" | "nftables" | "ipvs";

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy prints it. */
export type ServicePortName = string;

/** Identifies a service port within a family: its name, `|` and its protocol (`default/web:http|tcp`). */
export type ServicePortKey = string;

/** The key of a service port. */
export function servicePortKey(name: ServicePortName, protocol: Protocol): ServicePortKey {
  return solid("|", name, protocol);
}

/**
 * What becomes of a new connection to a frontend:
 * - `cluster`: it goes to one of `clusterEndpoints`;
 * - `local`: it goes to one of `localEndpoints`;
 * - `reject`: there is no usable endpoint anywhere, the client is told at once;
 * - `drop`: the traffic policy is Local and there is no usable endpoint on this node.
 */
export type Verdict = "cluster" | "local" | "reject" | "drop";

/** One port of one Service in one family, with every decision taken: the unit of change. */
export interface ServicePort {
  readonly name: ServicePortName;
  readonly protocol: Protocol;
  readonly clusterIP: string;
  /** The port at the cluster IP, the external IPs and the load balancer IPs. */
  readonly port: number;
  readonly externalIPs: readonly string[];
  /** Load balancer addresses that this node answers for (ipMode VIP). */
  readonly loadBalancerIPs: readonly string[];
  /** The port on the node's own addresses; 0 where there is none. */
  readonly nodePort: number;
  /** The port on which health checks of a load balancer must be let in; 0 where there is none. */
  readonly healthCheckNodePort: number;
  /** What becomes of traffic to the cluster IP. */
  readonly internal: Verdict;
  /**
   * What becomes of traffic from outside to external IPs, load balancer IPs and the node port. `local` and `drop` mean
   * that the external traffic policy is Local: traffic of this node and of its pods then goes to `clusterEndpoints`.
   */
  readonly external: Verdict;
  /**
   * The endpoints for policy Cluster, after readiness, termination and topology; in a stable order without duplicates.
   * Empty where no traffic of this service port uses that policy.
   */
  readonly clusterEndpoints: readonly string[];
  /** The endpoints for policy Local; in a stable order without duplicates. Empty where nothing uses that policy. */
  readonly localEndpoints: readonly string[];
  /** Endpoints on this node among all of the above: a pod that reaches itself must be masqueraded. */
  readonly endpointsOnThisNode: readonly string[];
  /**
   * For UDP: endpoints that get no new flows but still serve the ones they have (terminating and serving, or out of
   * favour with topology). Empty otherwise.
   */
  readonly lingeringEndpoints: readonly string[];
  /** How long a client stays with its endpoint, in seconds; 0 without session affinity. */
  readonly affinitySeconds: number;
  /**
   * Who may use the load balancer IPs, as canonical prefixes of this family. Empty lets everybody in, also where there
   * are ranges of the other family only (kube-proxy's rule).
   */
  readonly sourceRanges: readonly string[];
}

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
  /** Whether 127.0.0.1 serves node ports (iptables mode, IPv4). */
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

/** What changed for a family since the revision `base`. */
export interface FamilyDelta {
  /** The revision that holds once this is applied. */
  readonly revision: number;
  /** The revision that this changes; undefined where this is the family's whole state, and nothing else is to remain. */
  readonly base: number | undefined;
  /** The settings where they changed; always there in a whole state. */
  readonly settings: FamilySettings | undefined;
  readonly set: readonly ServicePort[];
  readonly deleted: readonly ServicePortKey[];
  /**
   * The part of a whole state that this is, where it comes in two: the `head` has the service ports that are to be in
   * effect before all others. It says nothing of those others, which the kernel may serve; the `rest` follows it.
   */
  readonly part?: "head" | "rest";
}

/** Whether a family's whole state is known with this delta. */
export function completesState({ base, part }: FamilyDelta): boolean {
  return part === undefined ? base === undefined : part === "rest";
}

/** What could not be programmed, and for whom. */
export interface SyncProblem {
  /** The service port that is not served, where one is to blame. */
  readonly servicePort: ServicePortName | undefined;
  /** Which tool or step failed, why, in its own words, and what happens next. */
  readonly message: string;
}

/** How one sync went, as the worker tells the main isolate. */
export interface SyncReport {
  readonly family: Family;
  /** The newest revision that was tried. */
  readonly revision: number;
  /** Whether all of that revision is in effect, but for `problems`. */
  readonly ok: boolean;
  /** Whether everything was looked at (a whole state, or a comparison with the kernel). */
  readonly full: boolean;
  /** Wall time at which it ended, in milliseconds since 1970. */
  readonly endedAtMs: number;
  readonly durationMs: number;
  readonly problems: readonly SyncProblem[];
  /** Whether the worker goes on without a delta: it tries again what failed, or looks after something later. */
  readonly unfinished?: true;
  /** The figures of this sync by metric, for the metrics of the backend's own (see core/observe/metrics.ts). */
  readonly figures: Readonly<Record<string, number>>;
}

/**
 * Packets that rules of this family have met so far, as far as the kernel remembers: a count restarts when its rule is
 * rewritten. kube-proxy counts the same with nfacct.
 */
export interface PacketCounts {
  /** Dropped because connection tracking took them for INVALID. */
  readonly ctStateInvalidDropped: number;
  /** First packets of connections to a node port at a loopback address. */
  readonly localhostNodePortsAccepted: number;
}

/** What of the kernel's state is there for one service port, as the tools write it. */
export interface RuleDescription {
  /** Each place with what is in it for the service port: `nat KUBE-SVC-…` and its rules, `map services` and elements. */
  readonly parts: readonly RulePart[];
  /** Why the kernel does not have it, where it refused it. */
  readonly problem: string | undefined;
}

/** One place in the kernel, and the lines that are in it for a service port. */
export interface RulePart {
  readonly place: string;
  readonly lines: readonly string[];
}
