import { FAMILIES, type Level } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";

/** The name of a mode, as `--proxy-mode` takes it: `nftables`. backends/registry.ts lists the modes. */
export type ProxyMode = string;

/** A `ProxyMode`, known or not. */
const PROXY_MODE = shape.text(/^[a-z]{1,16}$/);

/** Linux permits more in an interface name, but no such name is known to be in use. */
const INTERFACE = shape.text(/^[A-Za-z\d_][\w.:@-]{0,14}$/);

const LOCAL_TRAFFIC = shape.anyOf(
  shape.record({ by: shape.oneOf("none") }),
  shape.record({ by: shape.oneOf("source-prefix"), prefix: shape.PREFIX }),
  shape.record({ by: shape.oneOf("bridge"), interface: INTERFACE }),
  shape.record({ by: shape.oneOf("interface-prefix"), prefix: INTERFACE }),
);

/** The detection of traffic from pods of this node (kube-proxy's detectLocalMode). */
export type LocalTraffic = shape.TypeOf<typeof LOCAL_TRAFFIC>;

/**
 * The interface that holds the service addresses in IPVS mode, by kube-proxy's name. They do not count as the node's own
 * addresses: they serve no node ports and no health checks.
 */
export const DUMMY_INTERFACE = "kube-ipvs0";

const SECONDS = shape.integer(0, 2 ** 31 - 1);

/** The settings of IPVS mode for one family (section `ipvs` of kube-proxy's configuration). */
const IPVS_SETTINGS = shape.record({
  /** The scheduler of all virtual servers, by its name in the kernel: `rr`. */
  scheduler: shape.text(/^[a-z\d_]{1,16}$/),
  /** Whether the node answers ARP requests only for addresses of the interface on which they arrive. */
  strictARP: shape.BOOLEAN,
  /** Prefixes of this family; virtual servers in them belong to other programs. */
  excludePrefixes: shape.list(shape.PREFIX),
  /** The timeouts of idle connections, in seconds; 0 keeps the kernel's. */
  timeoutSeconds: shape.record({ tcp: SECONDS, tcpFin: SECONDS, udp: SECONDS }),
});

/** See `IPVS_SETTINGS`. */
export interface IpvsSettings extends shape.TypeOf<typeof IPVS_SETTINGS> {}

/** The settings that apply to all services of a family. */
export const FAMILY_SETTINGS = shape.record({
  mode: PROXY_MODE,
  /** This node's primary address of this family; the unspecified or loopback address if unknown. */
  nodeIP: shape.ADDRESS,
  localTraffic: LOCAL_TRAFFIC,
  masqueradeAll: shape.BOOLEAN,
  /** The packet mark for masquerading: one bit of 32 (0x4000 by default). */
  masqueradeMark: shape.oneOf<number>(...Array.from({ length: 32 }, (_, bit) => 2 ** bit)),
  /** The prefixes of node addresses that serve node ports; undefined for all addresses. */
  nodePortPrefixes: shape.orUndefined(shape.list(shape.PREFIX)),
  /** Whether loopback addresses serve node ports: those in `nodePortPrefixes`. */
  localhostNodePorts: shape.BOOLEAN,
  /** Whether conntrack accepts out-of-window TCP packets, so that INVALID ones need not be dropped (iptables mode). */
  conntrackTcpLiberal: shape.BOOLEAN,
  /** Whether the rules count connection attempts and their answers (nftables mode); absent if they do not. */
  countsAttempts: shape.optional(shape.oneOf(true)),
  /** The ranges of cluster IPs (nftables mode): traffic to an address in them that no service has is dropped. */
  serviceRanges: shape.list(shape.PREFIX),
  /** The interval of comparisons with the kernel. Deno's timers take 31 bits; longer intervals are clipped there. */
  syncPeriodMs: shape.satisfying<number>((value) => typeof value === "number" && value > 0),
  /** Whether traffic is counted; absent if it is not. */
  countTraffic: shape.optional(shape.oneOf(true)),
  /** For IPVS mode; undefined in others. */
  ipvs: shape.optional(IPVS_SETTINGS),
  /**
   * The address of this node at which the relay takes connections (userspace mode). Undefined if the node's address is unknown
   * or not its own: then the kernel picks one for each packet, by the interface on which it arrived.
   */
  relayAddress: shape.optional(shape.ADDRESS),
});

/** See `FAMILY_SETTINGS`. */
export interface FamilySettings extends shape.TypeOf<typeof FAMILY_SETTINGS> {}

const KERNEL_SETTING = shape.record({
  /** `net.netfilter.nf_conntrack_max`. */
  name: shape.text(/./),
  value: shape.COUNT,
  /** Whether to keep a greater value. */
  atLeast: shape.optional(shape.oneOf(true)),
  /** Whether not to warn if it cannot be written. */
  mayFail: shape.optional(shape.oneOf(true)),
});

/** A sysctl and its wanted value. */
export type KernelSetting = shape.TypeOf<typeof KERNEL_SETTING>;

/** The start of a family's worker. */
export const WORKER_START = shape.record({
  family: shape.oneOf(...FAMILIES),
  mode: PROXY_MODE,
  /** Set only in ipvs mode. */
  ipvs: shape.optional(IPVS_SETTINGS),
  logLevel: shape.oneOf<Level>("error", "warn", "info", "debug", "trace"),
  logFormat: shape.oneOf("text", "json"),
  /** The host-wide sysctls that this worker sets after its setup; empty if the other family's worker sets them. */
  kernel: shape.list(KERNEL_SETTING),
  /** Whether the worker reports `ready` only after setting them. Serving never waits for them. */
  kernelFirst: shape.optional(shape.oneOf(true)),
});

/** See `WORKER_START`. */
export interface WorkerStart extends shape.TypeOf<typeof WORKER_START> {}
